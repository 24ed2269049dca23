/** How a shell in a sandbox reaches what its proxy connects it to. */

/** The name and port by which the proxy knows a program that runs outside of the sandbox. */
export const programAt = (name: string): string => `${name}.ringfence.invalid:1`;

/** Lines of bash that connect descriptor 3 to \`HOST:PORT\`. If that is refused, the reason goes to standard error and the shell ends with 1. */
export const connecting = (to: string): string => `
proxy="\${http_proxy#http://}"
exec 3<>"/dev/tcp/\${proxy/://}" || exit 1
printf 'CONNECT %s HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' "${to}" >&3
IFS= read -r status <&3
while IFS= read -r line <&3 && [ "$line" != $'\\r' ]; do :; done
case "$status" in *' 200 '*) ;; *) cat <&3 >&2; exit 1 ;; esac
`;
