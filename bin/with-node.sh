# Read by the programs beside it, whose folder is `here`. `node` is the Node that the package or the checkout brings, or else
# the one in PATH; it takes the place of the shell, so that there is one process, whichever Node ran npm.
here=${program%/*}
for node in "$here"/../node_modules/node-linux-*/bin/node "$here"/../../node-linux-*/bin/node; do
  [ ! -x "$node" ] || break
done
[ -x "$node" ] || node=node
# Machines without a compiler may lack the one library that Node needs beside the C library.
for library in /usr/lib/*/libatomic.so.1 /usr/lib64/libatomic.so.1 /usr/lib/libatomic.so.1; do
  [ ! -e "$library" ] || break
done
[ -e "$library" ] || "$node" -e 0 2>/dev/null || {
  echo "ringfence: $node needs the library libatomic.so.1 (Debian, Ubuntu: apt-get install libatomic1; Fedora: dnf install libatomic)" >&2
  exit 78
}
