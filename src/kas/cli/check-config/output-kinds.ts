import type { Count, OutputKind } from '../../command/output.ts'

/**
 * A report on files: they can be used, or what is wrong in them.
 *
 * @command kas check-config
 */
export interface ConfigurationReport extends OutputKind<'ConfigurationReport'> {
  /** files, in the order in which they were checked */
  readonly files: readonly FileReport[]
}

/** A report on one file. */
export interface FileReport {
  /** path of the file, as it was named */
  readonly file: string
  /** which program reads it, and for what */
  readonly kind: 'kas' | 'agent' | 'directory'
  /** whether it can be used, by the options of the command */
  readonly usable: boolean
  /** faults: each of them alone makes the file unusable */
  readonly problems: readonly FileRemark[]
  /** keys that have no effect */
  readonly withoutEffect: readonly IneffectiveKey[]
  /** what you should know, and stops nothing */
  readonly notes: readonly FileRemark[]
  /** files that it names and that are not here */
  readonly unchecked: readonly FileRemark[]
}

/** A remark about a place in a file. */
export interface FileRemark {
  /** path of the file, or `environment` */
  readonly file: string
  /** line in the file, from 1 */
  readonly line?: Count | undefined
  /** key, such as `agent.listen.address` */
  readonly key?: string | undefined
  /** what was found, and what is allowed */
  readonly text: string
}

/** A key that has no effect. */
export interface IneffectiveKey {
  /** `unknown`: no program knows it; `unused`: this version does nothing with it; `unserved`: another program uses it */
  readonly kind: 'unknown' | 'unused' | 'unserved'
  /** key, such as `agent.listen.websocket` */
  readonly key: string
  /** nearest known key, or the reason why it has no effect */
  readonly hint?: string | undefined
  /** line in the file, from 1 */
  readonly line?: Count | undefined
}
