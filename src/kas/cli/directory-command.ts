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
  /** Returns the data in the format of the command line. */
  print<Kind extends OutputKind>(data: Data<Kind>): Promise<string>
  /** Writes the directory now, or prints its changes. Without this call that is done once the command has run. */
  commit(): Promise<void>
}

/** A subcommand that edits the directory file. */
export interface DirectoryCommand {
  /** words after `kas`, with arguments */
  readonly usage: string
  readonly summary: string
  readonly options: CommandOptions
  /** see `parsedArgs` */
  readonly hints?: Readonly<Record<string, string>>
  /** number of positional arguments */
  readonly positionals: number
  /** true: the command runs without a directory file; absent: never */
  doesWithout?(values: CliValues): boolean
  /** Edits the document. The result is printed once the document is written; a text goes to stdout. */
  run(context: CliContext): Promise<string | DirectoryResult>
}

/** Printed only after the directory is written: an id or a token that is not in it is useless, and no secret. */
export interface DirectoryResult {
  /** for stderr: a sentence */
  readonly note?: string
  /** for stdout, with its end */
  readonly output?: string
}
