import type * as z from 'zod'

/**
 * What a module has of an agent's folder. It is read here and in the thread that reads large files: what it needs is
 * loaded by both.
 */
export interface ModuleSchema {
  readonly block?: BlockSchema
  readonly file?: FileSchema
}

/** A block of the agent's configuration, which agentk is sent as JSON under its key. */
export interface BlockSchema<S extends z.ZodType = z.ZodType> {
  readonly key: string
  /** What it gives is what is sent: JSON, without defaults. What is wrong by it makes the file invalid. */
  readonly schema: S
  /** as JSON: each replica keeps it, and agentk is sent it */
  readonly maxBytes: number
  /** what is sent of a file without it; absent: nothing */
  readonly whenAbsent?: z.output<S>
  /** a key that the schema does not know makes the file invalid; absent: it is a warning */
  readonly refusesUnknown?: boolean
  /**
   * It may stand alone in this file beside the configuration: a stock kas refuses a configuration with keys that it does
   * not know.
   */
  readonly ownFile?: string
  /** What stock agents are sent under its key, as JSON of `ConfigurationFile`; absent: nothing. */
  forStock?(value: z.output<S>): object
}

/** A file beside the configuration, which the module reads at a commit that it names. */
export interface FileSchema {
  /** `views.yaml` */
  readonly name: string
  /** a key that it does not know is refused */
  readonly schema: z.ZodObject
  /** the reason, of keys whose names are known */
  readonly refused: Readonly<Record<string, string>>
  readonly maxJsonBytes: number
}

/** Those of all modules. */
export interface ModuleSchemas {
  readonly list: readonly ModuleSchema[]
  /** of the thread that reads large files: it calls `answerJobs` with the same list */
  readonly program: URL
}

/** A module's own block as it was read. */
export interface ReadBlock {
  /** what agentk is sent */
  readonly json: string
  readonly value: unknown
}

export function blocksOf(schemas: readonly ModuleSchema[]): BlockSchema[] {
  return schemas.flatMap(({ block }) => block ?? [])
}

/** @returns undefined: there is no file, or it has none */
export function blockIn<S extends z.ZodType>(
  read: { readonly blocks?: ReadonlyMap<string, ReadBlock> | undefined } | undefined,
  { key }: BlockSchema<S>,
): z.output<S> | undefined {
  return read?.blocks?.get(key)?.value as z.output<S> | undefined
}
