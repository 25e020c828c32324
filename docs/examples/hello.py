class Hello:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        greeting = params.get("greeting", "Hello")
        out_files[0].set_metadata({"Content-Type": "text/plain; charset=utf-8"})
        for line in in_files[0]:
            out_files[0].write(greeting.encode() + b", " + line.strip() + b"!\n")
        self.logger.info("greeted each name with %s", greeting)
