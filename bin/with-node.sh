# Read by the programs beside it, whose folder is `here`. `node` is the Node that the package or the checkout brings, or else
# the one in PATH; it takes the place of the shell, so that there is one process, whichever Node ran npm.
here=${program%/*}
for node in "$here"/../node_modules/node-linux-*/bin/node "$here"/../../node-linux-*/bin/node; do
  [ ! -x "$node" ] || break
done
[ -x "$node" ] || node=node
