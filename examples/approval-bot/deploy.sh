echo "deployed to $1"
