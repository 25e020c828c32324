echo "and from the tool"
