import type { ErrorSpec } from '../../../../lib/errors.ts'
import type { ClusterSettings } from '../../../../lib/kubeconfig.ts'
import type { LogLevel } from '../../../../lib/log.ts'
import type { MayImpersonate } from '../../../cluster/may-impersonate.ts'
import type { CustomRuleSource } from '../../../health/custom/custom-rule-schema.ts'
import type { RuleSources } from '../../../health/custom/rule-sources.ts'
import type { ListedEnvironment } from '../projection/environments.ts'

/** Settings with which the thread of views is built; they never change. */
export interface ThreadSettings {
  /** agentk itself: reviews are asked with it */
  readonly cluster: ClusterSettings
  /** the same cluster, with the account that lists and watches */
  readonly watched: ClusterSettings
  /** identities that callers of views may have */
  readonly mayImpersonate: MayImpersonate
  readonly logLevel: LogLevel
  readonly configuration: Omit<ViewsConfiguration, 'health'>
  readonly rules: RuleSources
  /** size of the old generation, from which bounds follow. MiB */
  readonly heapMb: number
  /** memory of `JudgedNow`: the thread writes there which of users' rules it evaluates */
  readonly judged?: SharedArrayBuffer
}

/** `.gitlab/agents/<name>/views.yaml`, as kas has checked it, and environments, which kas adds. */
export interface ViewsConfiguration {
  readonly follow?: {
    /** namespaces in which a kind is followed if it may not be in the whole cluster */
    readonly namespaces?: readonly string[]
    /** `group/Kind`, or `Kind` of the core group; `*` is any; empty: all */
    readonly kinds?: readonly string[]
    readonly exclude?: readonly string[]
  }
  /** rules of health in place of Argo CD's (doc/reference/health.md) */
  readonly health?: readonly unknown[]
  /** system whose verdicts count and order rows */
  readonly verdict?: 'argo' | 'kstatus' | 'kas'
  /** environments of the directory file */
  readonly environments?: readonly ListedEnvironment[]
}

/** Messages to the thread. A stream is one call of `Views/Follow`. */
export type ThreadRequest =
  | { readonly kind: 'opened' | 'left'; readonly stream: number }
  | { readonly kind: 'request'; readonly stream: number; readonly bytes: Uint8Array }
  /** bytes of the thread's answers that the tunnel has taken */
  | { readonly kind: 'sent'; readonly stream: number; readonly bytes: number }
  /** reason why the current views.yaml cannot be used; empty: it can */
  | { readonly kind: 'unusable'; readonly problem: string }
  | { readonly kind: 'ping' }

/** Messages of the thread. */
export type ThreadAnswer =
  | { readonly kind: 'response'; readonly stream: number; readonly bytes: Uint8Array }
  | { readonly kind: 'failed'; readonly stream: number; readonly error: ErrorSpec }
  | { readonly kind: 'facts'; readonly facts: ViewsFacts }
  /** users' rules that can be used, once they were compiled */
  | { readonly kind: 'rules'; readonly good: readonly CustomRuleSource[] }
  | { readonly kind: 'pong' }
  | { readonly kind: 'priority'; readonly refused: string }

export interface ViewsFacts {
  readonly kinds: number
  readonly objects: number
  readonly state: 'live' | 'syncing' | 'stale'
  /** users' rules that are put aside: a line each, without names of objects */
  readonly rulesAside: readonly string[]
}
