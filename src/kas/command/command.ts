import { type ParseArgsConfig, parseArgs } from 'node:util'
import type { Clock } from '../../lib/clock.ts'
import { nearestName } from '../../lib/nearest-name.ts'
import type { PrintableOutput } from '../../lib/printable-output.ts'

/** Where a command reads and writes. */
export interface CliIo<Output = PrintableOutput> {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdout: Output
  readonly stderr: Output
  readonly stdin: AsyncIterable<Uint8Array | string>
  /** the terminal asks to end; absent: then the program just ends */
  once?(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown
  off?(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown
}

/** What a feature has of the command line: lines of `kas --help`, each with its commands. */
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
  /** line of `kas --help`: words, and what they do */
  readonly help: readonly [words: string, text: string]
  readonly commands: readonly CommandEntry[]
}

/** A command that loads itself once it is run: a help, and the other commands, need none of it. */
export interface CommandEntry {
  /**
   * After `kas`: `gitops status`. A line runs the command with the most words that it begins with; if there is none, the
   * first of those with its first word.
   */
  readonly words: string
  load(): Promise<Command>
}

export interface Command {
  /** after `kas`, with what it takes: printed where the line is wrong */
  readonly usage: string
  /** before what went wrong; absent: its words */
  readonly name?: string
  readonly options: CommandOptions
  /** what its option `output` may be */
  readonly outputs?: readonly string[]
  /** what a word that it takes may be, where that is known */
  readonly operands?: readonly string[]
  /**
   * @param args - after the first word
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
  /** all that there are */
  readonly groups: readonly CommandGroup[]
}

export type CliValues = Readonly<Record<string, string | boolean | readonly (string | boolean)[] | undefined>>

/** An option with one value that is not empty. */
export function textOption(values: CliValues, name: string): string | undefined {
  const value = values[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** A variable of the shell that is not set: without its option the others would match more than was meant. @throws UsageError */
export function refuseEmpty(values: CliValues, names: readonly string[]): void {
  for (const name of names)
    if (values[name] === '') throw new UsageError(`--${name} is empty: say which, or leave it out`)
}

/** The command line was wrong: printed with the usage, exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/**
 * As `parseArgs` of node.
 *
 * @param hints - by options that other commands have, without dashes: what to write here
 * @throws UsageError that says which option, and the hint at an unknown one, or the nearest one
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

/** Node explains in further lines how to write words that begin with a dash. */
function withoutAdvice(message: string): string {
  const [, option] = /^Option '([^']+)' argument (?:is ambiguous|missing)/.exec(message) ?? []
  return option === undefined ? message : `${option.replace(/ <value>$/, '')} needs a value`
}

/** @throws UsageError if the command line lacks it */
export function required<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new UsageError(`${what} is missing`)
  return value
}
