import type * as z from 'zod'

/**
 * A module's parts of an agent's folder. Both the main thread and the thread that reads large files load the schema.
 */
export interface ModuleSchema {
  readonly block?: BlockSchema
  readonly file?: FileSchema
}

/** A block of the agent's configuration, which is sent to agentk as JSON under its key. */
export interface BlockSchema<S extends z.ZodType = z.ZodType> {
  readonly key: string
  /** its output is sent as JSON, without defaults; a value that it refuses makes the file invalid */
  readonly schema: S
  /** bound of the JSON, which each replica keeps and sends to agentk */
  readonly maxBytes: number
  /** value for a file without the block; absent: none is sent */
  readonly whenAbsent?: z.output<S>
  /** true: a key that the schema does not know makes the file invalid; absent: it is a warning */
  readonly refusesUnknown?: boolean
  /**
   * file beside the configuration that may have the block alone. A stock kas refuses a configuration with unknown keys.
   */
  readonly ownFile?: string
  /** Values that agentk understands only with a feature; absent: every agentk that takes blocks understands all. */
  readonly older?: {
    /** name of the feature, as agentk sends it with its question */
    readonly feature: string
    /** Returns the block for an agentk without the feature; undefined: it understands the value as it is. */
    block(value: z.output<S>): object | undefined
  }
  /** Returns the value without keys that are for kas alone; absent: all is sent to agents. */
  forAgents?(value: z.output<S>): z.output<S>
  /** Returns the value for stock agents under its key, as JSON of `ConfigurationFile`; absent: none is sent. */
  forStock?(value: z.output<S>): object
}

/** A file beside the configuration, which the module reads at a commit of its choice. */
export interface FileSchema {
  /** `views.yaml` */
  readonly name: string
  /** schema, which refuses unknown keys */
  readonly schema: z.ZodObject
  /** reasons, by known names of keys */
  readonly refused: Readonly<Record<string, string>>
  readonly maxJsonBytes: number
}

/** Schemas of all modules. */
export interface ModuleSchemas {
  readonly list: readonly ModuleSchema[]
  /** program of the thread that reads large files, which calls `answerJobs` with the same list */
  readonly program: URL
}

/** A module's own block of a file. */
export interface ReadBlock {
  /** JSON for agentk */
  readonly json: string
  readonly value: unknown
  /** JSON for an agentk without this feature; absent: the same as for others */
  readonly older?: { readonly feature: string; readonly json: string }
}

export function blocksOf(schemas: readonly ModuleSchema[]): BlockSchema[] {
  return schemas.flatMap(({ block }) => block ?? [])
}

/** @returns undefined: there is no file, or it does not have the block */
export function blockIn<S extends z.ZodType>(
  read: { readonly blocks?: ReadonlyMap<string, ReadBlock> | undefined } | undefined,
  { key }: BlockSchema<S>,
): z.output<S> | undefined {
  return read?.blocks?.get(key)?.value as z.output<S> | undefined
}
