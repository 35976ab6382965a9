import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import { absent } from './absent.ts'
import type { Kubectl } from './kubectl.ts'

/** As whom a caller is known to the cluster. */
export const identities = ['agent', 'ci_job', 'user', 'impersonate'] as const
export type Identity = (typeof identities)[number]

/** One way to the cluster: an API server itself, or the way through kas and tunnel. */
export interface KubectlSide {
  readonly name: string
  /** with all rights, in a namespace of this side's own */
  readonly kubectl: Kubectl
  /** paths of kubeconfigs */
  readonly kubeconfigs: Readonly<Record<Identity, string>>
  /** of the API server itself, for what is done and read beside kubectl */
  readonly admin: ApiClient
  /** a folder for files that this side alone uses */
  readonly folder: string
  /** adds a line to what `logs` and `attach` show */
  writeLogLine(line: string): Promise<void>
}

/**
 * Something to do with kubectl. It throws when what kubectl did is wrong, and gives what it saw, which must be
 * the same on every side.
 */
export interface KubectlOperation {
  readonly name: string
  /** how the stream is carried, where kubectl has both */
  readonly form?: 'WebSocket' | 'SPDY'
  /** programs of this machine that kubectl or the pod starts for it */
  readonly needs?: readonly string[]
  run(side: KubectlSide): Promise<string>
}

export const titleOf = ({ name, form }: KubectlOperation): string => (form ? `${name} (${form})` : name)

/** Why it cannot be run here: a value for tap's `skip`. */
export function skipOf({ needs = [] }: KubectlOperation): string | false {
  const missing = needs.filter(absent)
  return missing.length > 0 && `needs ${missing.join(', ')}`
}
