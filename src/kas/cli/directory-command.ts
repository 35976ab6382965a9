import type { Clock } from '../../lib/clock.ts'
import type { CliIo, CliValues, CommandOptions } from '../command/command.ts'
import type { Data, OutputKind } from '../command/output.ts'
import type { DirectoryDocument } from './directory-document.ts'

export interface CliContext {
  readonly values: CliValues
  readonly positionals: readonly string[]
  readonly directory: DirectoryDocument
  readonly io: CliIo
  readonly clock: Clock
  /** The data as the command line wants it. */
  print<Kind extends OutputKind>(data: Data<Kind>): Promise<string>
  /** Writes the directory now, or says what to change in it; without, that is done once the command has run. */
  commit(): Promise<void>
}

/** A subcommand that edits the directory file. */
export interface DirectoryCommand {
  /** after `kas`, with what it takes */
  readonly usage: string
  readonly summary: string
  readonly options: CommandOptions
  /** as in `parsedArgs` */
  readonly hints?: Readonly<Record<string, string>>
  /** how many positionals it takes */
  readonly positionals: number
  /** whether it runs without a directory file, as it has none then; absent: never */
  doesWithout?(values: CliValues): boolean
  /** Edits the document; what it returns is printed once that is written; a text goes to stdout. */
  run(context: CliContext): Promise<string | DirectoryResult>
}

/** Said after the directory is written alone: an id or a token that it does not hold is of no use, and no secret. */
export interface DirectoryResult {
  /** for stderr: a sentence */
  readonly note?: string
  /** for stdout, with its end */
  readonly output?: string
}
