import { type ParseArgsConfig, parseArgs } from 'node:util'
import type { Clock } from '../../lib/clock.ts'
import { nearestName } from '../../lib/nearest-name.ts'
import type { PrintableOutput } from '../../lib/printable-output.ts'

/** Input and output of a command. */
export interface CliIo<Output = PrintableOutput> {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdout: Output
  readonly stderr: Output
  readonly stdin: AsyncIterable<Uint8Array | string> & {
    /** somebody can answer a question; absent: nobody can */
    readonly isTTY?: boolean
  }
  /** called if the terminal asks the program to end; absent: the program just ends */
  once?(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown
  off?(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown
}

/** Part of a feature in the command line: lines of `kas --help`, each with its commands. */
export type ModuleCli = readonly CommandGroup[]

/** Tasks by which `kas --help` sorts its lines, each with its title. */
export const tasks = {
  see: 'See what runs in a cluster',
  reach: 'Reach a cluster',
  gitops: 'GitOps',
  administer: 'Administer',
  diagnose: 'Diagnose',
} as const

export type Task = keyof typeof tasks

export interface CommandGroup {
  readonly task: Task
  /** line of `kas --help`: words, and their purpose */
  readonly help: readonly [words: string, text: string]
  readonly commands: readonly CommandEntry[]
}

/** A command that is loaded only when it is run, so that the help and the other commands do not load it. */
export interface CommandEntry {
  /**
   * Words after `kas`: `gitops status`. The command whose words are the longest beginning of a line runs. If there is
   * none, the first command with the line's first word runs.
   */
  readonly words: string
  load(): Promise<Command>
}

export interface Command {
  /** words after `kas`, with arguments: printed if the line is wrong */
  readonly usage: string
  /** name before an error; absent: its words */
  readonly name?: string
  readonly options: CommandOptions
  /** values of its option `output` */
  readonly outputs?: readonly string[]
  /** values of its argument, if they are known */
  readonly operands?: readonly string[]
  /**
   * @param args - arguments after the first word
   * @returns the exit code
   * @throws UsageError; another Error, whose text is printed
   */
  run(args: readonly string[], context: CommandContext): Promise<number>
}

export type CommandOptions = NonNullable<ParseArgsConfig['options']>

export interface CommandContext {
  readonly io: CliIo
  readonly clock: Clock
  readonly random: () => number
  /** all groups */
  readonly groups: readonly CommandGroup[]
}

export type CliValues = Readonly<Record<string, string | boolean | readonly (string | boolean)[] | undefined>>

/** Returns the value of an option that has one value and is not empty. */
export function textOption(values: CliValues, name: string): string | undefined {
  const value = values[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

/**
 * Refuses empty options. An unset variable of the shell makes one, and without it the other options would match more
 * than intended.
 *
 * @throws UsageError
 */
export function refuseEmpty(values: CliValues, names: readonly string[]): void {
  for (const name of names)
    if (values[name] === '') throw new UsageError(`--${name} is empty: say which, or leave it out`)
}

/** A wrong command line: printed with the usage, exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/**
 * Parses arguments as Node's `parseArgs` does.
 *
 * @param hints - what to write instead, by options of other commands, without dashes
 * @throws UsageError with the option, and with the hint at an unknown one, or the nearest one
 */
export function parsedArgs<T extends ParseArgsConfig>(
  config: T,
  hints: Readonly<Record<string, string>> = {},
): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config)
  } catch (error) {
    const { message } = error as Error
    const [, dashes = '', unknown = ''] = /^Unknown option '(--?)([^']+)'/.exec(message) ?? []
    const hint = Object.hasOwn(hints, unknown) ? hints[unknown] : undefined
    if (hint !== undefined) throw new UsageError(`Unknown option '${dashes}${unknown}'. ${hint}`)
    if (unknown === '') throw new UsageError(withoutAdvice(message))
    const near = dashes === '--' ? nearestName(unknown, Object.keys(config.options ?? {})) : undefined
    throw new UsageError(`Unknown option '${dashes}${unknown}'${near ? `. Did you mean --${near}?` : ''}`)
  }
}

/** Removes Node's further lines about words that begin with a dash. */
function withoutAdvice(message: string): string {
  const [, option] = /^Option '([^']+)' argument (?:is ambiguous|missing)/.exec(message) ?? []
  return option === undefined ? message : `${option.replace(/ <value>$/, '')} needs a value`
}

/** @throws UsageError if the value is missing */
export function required<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new UsageError(`${what} is missing`)
  return value
}
