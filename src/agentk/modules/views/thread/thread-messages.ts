import type { ErrorSpec } from '../../../../lib/errors.ts'
import type { ClusterSettings } from '../../../../lib/kubeconfig.ts'
import type { LogLevel } from '../../../../lib/log.ts'
import type { MayImpersonate } from '../../../cluster/may-impersonate.ts'
import type { CustomRuleSource } from '../../../health/custom/custom-rule-schema.ts'
import type { ListedEnvironment } from '../projection/environments.ts'
import type { RuleSources } from './rule-sources.ts'

/** What the thread of views is built with; it never changes. */
export interface ThreadSettings {
  /** as agentk itself: what callers may list is asked so */
  readonly cluster: ClusterSettings
  /** the same cluster, as whom all is listed and watched */
  readonly watched: ClusterSettings
  /** whom callers of views may be */
  readonly mayImpersonate: MayImpersonate
  readonly logLevel: LogLevel
  readonly configuration: Omit<ViewsConfiguration, 'health'>
  readonly rules: RuleSources
  /** of the old generation, which bounds follow. MiB */
  readonly heapMb: number
  /** memory of `JudgedNow`, in which the thread writes which of users' rules it evaluates */
  readonly judged?: SharedArrayBuffer
}

/** `.gitlab/agents/<name>/views.yaml`, as kas has checked it, and what kas knows beside it. */
export interface ViewsConfiguration {
  readonly follow?: {
    /** where each kind is followed, should it not be allowed in the whole cluster */
    readonly namespaces?: readonly string[]
    /** `group/Kind`; beside those that are followed anyway */
    readonly kinds?: readonly string[]
    readonly exclude?: readonly string[]
  }
  /** rules of health in place of Argo CD's (doc/health.md) */
  readonly health?: readonly unknown[]
  /** whose verdicts counts and order go by */
  readonly verdict?: 'argo' | 'kstatus' | 'kas'
  /** of the directory file */
  readonly environments?: readonly ListedEnvironment[]
}

/** To the thread. A stream is one call of `Views/Follow`. */
export type ThreadRequest =
  | { readonly kind: 'opened' | 'left'; readonly stream: number }
  | { readonly kind: 'request'; readonly stream: number; readonly bytes: Uint8Array }
  /** so much of what it has answered is on its way */
  | { readonly kind: 'sent'; readonly stream: number; readonly bytes: number }
  /** why views.yaml as it stands now cannot be used; empty: it can */
  | { readonly kind: 'unusable'; readonly problem: string }
  | { readonly kind: 'ping' }

/** Of the thread. */
export type ThreadAnswer =
  | { readonly kind: 'response'; readonly stream: number; readonly bytes: Uint8Array }
  | { readonly kind: 'failed'; readonly stream: number; readonly error: ErrorSpec }
  | { readonly kind: 'facts'; readonly facts: ViewsFacts }
  /** of users' rules those that can be used, once they were compiled */
  | { readonly kind: 'rules'; readonly good: readonly CustomRuleSource[] }
  | { readonly kind: 'pong' }
  | { readonly kind: 'priority'; readonly refused: string }

export interface ViewsFacts {
  readonly kinds: number
  readonly objects: number
  readonly state: 'live' | 'syncing' | 'stale'
  /** users' rules that are put aside, a line each, without names of objects */
  readonly rulesAside: readonly string[]
}
