import { systemClock } from '../../lib/clock.ts'
import { isAsciiLocale, PrintableOutput, type TextStream } from '../../lib/printable-output.ts'
import { withoutNodeAdvice } from '../../lib/tls-fault.ts'
import { type CliIo, type Command, type CommandEntry, type CommandGroup, UsageError } from '../command/command.ts'
import { commandGroups } from './commands.ts'

/**
 * Runs a command.
 *
 * @param argv - without the program: `['agent', 'create', ...]`
 * @param groups - default: the groups of kas
 * @returns the exit code: 0, 1 if it failed, 2 if the command line is wrong; a command may have others
 */
export async function runCli(
  argv: readonly string[],
  program: CliIo<TextStream>,
  groups: readonly CommandGroup[] = commandGroups,
): Promise<number> {
  const entry = entryFor(argv, groups)
  if (!entry) throw new Error(`there is no command ${argv[0]}`)
  const command = await entry.load()
  const io = printableIo(program)
  const code = await runCommand(command, entry, { argv, io, groups })
  if (code !== 0) io.stderr.unmute() // with --quiet a command prints nothing, unless it fails
  return code
}

interface Run {
  readonly argv: readonly string[]
  readonly io: CliIo
  readonly groups: readonly CommandGroup[]
}

/** @returns the exit code, also of a command that throws: then its error is written */
async function runCommand(command: Command, entry: CommandEntry, { argv, io, groups }: Run): Promise<number> {
  try {
    return await command.run(argv.slice(1), { io, clock: systemClock, random: Math.random, groups })
  } catch (error) {
    const isUsage = error instanceof UsageError
    const text = withoutNodeAdvice(error instanceof Error ? error.message : String(error))
    const { name = entry.words, usage } = command
    io.stderr.write(`kas ${name}: ${text}\n${isUsage ? `usage: kas ${usage}\n` : ''}`)
    return isUsage ? 2 : 1
  }
}

/** Returns the only input and output through which commands use a terminal. */
export function printableIo(program: CliIo<TextStream>): CliIo {
  const options = { isAscii: isAsciiLocale(program.env) }
  return {
    env: program.env,
    stdout: new PrintableOutput(program.stdout, options),
    stderr: new PrintableOutput(program.stderr, options),
    get stdin() {
      return program.stdin // Node opens it at its first read
    },
    once: (signal, listener) => program.once?.(signal, listener),
    off: (signal, listener) => program.off?.(signal, listener),
  }
}

/** @see CommandEntry.words */
function entryFor(argv: readonly string[], groups: readonly CommandGroup[]): CommandEntry | undefined {
  const entries = groups.flatMap(({ commands }) => commands)
  const [longest] = entries
    .filter(({ words }) => words.split(' ').every((word, i) => argv[i] === word))
    .sort((one, other) => other.words.length - one.words.length)
  return longest ?? entries.find(({ words }) => words.startsWith(`${argv[0]} `))
}
