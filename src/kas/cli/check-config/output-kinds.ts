import type { Count, OutputKind } from '../../command/output.ts'

/**
 * Results of the checks of configuration files.
 *
 * @command kas check-config
 */
export interface ConfigurationReport extends OutputKind<'ConfigurationReport'> {
  /** files, in the order in which they were checked */
  readonly files: readonly FileReport[]
}

/** Result of the check of one file. */
export interface FileReport {
  /** path of the file, from the command line or the configuration of kas */
  readonly file: string
  /** type of the file: configuration of kas, a file of an agent, or the directory file */
  readonly kind: 'kas' | 'agent' | 'directory'
  /** true if the file can be used; with `--strict` and `--files`, more faults count */
  readonly usable: boolean
  /** faults, each of which makes the file unusable */
  readonly problems: readonly FileRemark[]
  /** keys that have no effect */
  readonly withoutEffect: readonly IneffectiveKey[]
  /** remarks that do not make the file unusable */
  readonly notes: readonly FileRemark[]
  /** files named in it that are not checked, because they are missing here or cannot be read */
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
  /** the remark; for a fault, the found value and the allowed values */
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
