import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import { absent } from './absent.ts'
import type { Kubectl } from './kubectl.ts'

/** Identities of a caller in the cluster. */
export const identities = ['agent', 'ci_job', 'user', 'impersonate'] as const
export type Identity = (typeof identities)[number]

/** One way to the cluster: an API server itself, or the way through kas and tunnel. */
export interface KubectlSide {
  readonly name: string
  /** kubectl with all rights, in a namespace of this side's own */
  readonly kubectl: Kubectl
  /** paths of kubeconfigs */
  readonly kubeconfigs: Readonly<Record<Identity, string>>
  /** client of the API server itself, for changes and checks without kubectl */
  readonly admin: ApiClient
  /** a folder for files that only this side uses */
  readonly folder: string
  /** adds a line to the output of `logs` and `attach` */
  writeLogLine(line: string): Promise<void>
}

/**
 * A use of kubectl. It throws when kubectl's result is wrong, and returns its observations, which must be the same on
 * every side.
 */
export interface KubectlOperation {
  readonly name: string
  /** protocol of the stream, where kubectl has both */
  readonly form?: 'WebSocket' | 'SPDY'
  /** programs of this machine that kubectl or the pod starts for it */
  readonly needs?: readonly string[]
  run(side: KubectlSide): Promise<string>
}

export const titleOf = ({ name, form }: KubectlOperation): string => (form ? `${name} (${form})` : name)

/** Reason why it cannot be run here: a value for tap's `skip`. */
export function skipOf({ needs = [] }: KubectlOperation): string | false {
  const missing = needs.filter(absent)
  return missing.length > 0 && `needs ${missing.join(', ')}`
}
