/** Streams of a command that is executed in a pod. Writes settle once the peer has read the bytes. */
export interface CommandStreams {
  /** undefined: the client attached none */
  readonly stdin: AsyncIterable<Uint8Array> | undefined
  readonly tty: boolean
  readonly stdout: (bytes: Uint8Array) => Promise<void>
  readonly stderr: (bytes: Uint8Array) => Promise<void>
}

const interruptByte = 0x03
const endByte = 0x04
const returnByte = 0x0d

/**
 * Replaces every command: `echo` prints its arguments, `true` and `false` exit with their codes, any other command
 * returns its input. No command runs on this machine.
 *
 * @returns the exit code
 */
export async function runEcho(command: readonly string[], streams: CommandStreams): Promise<number> {
  const [program = '', ...args] = command
  const newline = streams.tty ? '\r\n' : '\n'
  if (program === 'echo') {
    const [text, end] = args[0] === '-n' ? [args.slice(1).join(' '), ''] : [args.join(' '), newline]
    await streams.stdout(Buffer.from(`${text}${end}`))
    return 0
  }
  if (program === 'true' || program === 'false') return program === 'true' ? 0 : 1
  const plainCat = program === 'cat' && args.length === 0
  if (!streams.stdin) {
    if (plainCat) return 0
    await complain(
      streams,
      `the API double runs no ${JSON.stringify(program)}: it knows echo, cat, true and false${newline}`,
    )
    return 127
  }
  if (!plainCat)
    await complain(streams, `the API double runs no ${JSON.stringify(program)}: it gives back what you type${newline}`)
  return streams.tty ? echoTerminal(streams, streams.stdin) : echoBytes(streams, streams.stdin)
}

async function complain(streams: CommandStreams, text: string): Promise<void> {
  // a terminal has one output for both
  await (streams.tty ? streams.stdout : streams.stderr)(Buffer.from(text))
}

async function echoBytes({ stdout }: CommandStreams, stdin: AsyncIterable<Uint8Array>): Promise<number> {
  for await (const bytes of stdin) await stdout(bytes)
  return 0
}

/** Echoes a raw terminal, which sends Ctrl-C and Ctrl-D as bytes: it must check for them, or no user could leave. */
async function echoTerminal({ stdout }: CommandStreams, stdin: AsyncIterable<Uint8Array>): Promise<number> {
  for await (const bytes of stdin) {
    const end = bytes.findIndex((byte) => byte === interruptByte || byte === endByte)
    const typed = end < 0 ? bytes : bytes.subarray(0, end)
    await stdout(Uint8Array.from([...typed].flatMap((byte) => (byte === returnByte ? [returnByte, 0x0a] : [byte]))))
    if (end >= 0) return bytes[end] === interruptByte ? 130 : 0
  }
  return 0
}

/** Returns the `Status` with a command's exit code for the client (channel 3). */
export function exitStatus(code: number): Record<string, unknown> {
  if (code === 0) return { metadata: {}, status: 'Success' }
  const message = `command terminated with non-zero exit code: exit status ${code}`
  const causes = [{ reason: 'ExitCode', message: String(code) }]
  return { metadata: {}, status: 'Failure', message, reason: 'NonZeroExitCode', details: { causes } }
}
