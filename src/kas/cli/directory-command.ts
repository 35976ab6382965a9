import type { ParseArgsConfig } from 'node:util'
import type { CliIo, CliValues } from './command.ts'
import type { DirectoryDocument } from './directory-document.ts'

export interface CliContext {
  readonly values: CliValues
  readonly positionals: readonly string[]
  readonly directory: DirectoryDocument
  readonly io: CliIo
}

/** A subcommand that edits the directory file. */
export interface Command {
  /** after `kas`, with what it takes */
  readonly usage: string
  readonly summary: string
  readonly options: NonNullable<ParseArgsConfig['options']>
  /** how many positionals it takes */
  readonly positionals: number
  /** Edits the document; what it returns goes to stdout. Notes go to stderr at once. */
  run(context: CliContext): Promise<string>
}
