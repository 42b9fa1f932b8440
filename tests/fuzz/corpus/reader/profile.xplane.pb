
./device:GPU:0	stream #7À„="èÐ