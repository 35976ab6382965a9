/**
 * What views say in JSON: agentk writes updates, kas passes them on, commands and pages read them (doc/views.md).
 * Imports nothing.
 */

/** Sub-protocol of the WebSocket at `<prefix>views`. */
export const viewsProtocol = 'kas-views-v1'

/** Of kas' on a session: the pod that leads may report what its views are of, and kas sends what they are to show. */
export const viewsFeature = 'views'

export type ViewName = 'tree' | 'list' | 'environments' | 'events' | 'object' | 'graph'

/** By name; the youngest first. With none, and with `since`, the worst first: who asks puts the rows that he has in that order. */
export const sortNames = ['name', 'age', 'since'] as const
export type SortName = (typeof sortNames)[number]

/** Worst last, as Argo CD has it. The empty one: no verdict, as good as any. */
export const argoWords = ['', 'Healthy', 'Suspended', 'Progressing', 'Missing', 'Degraded', 'Unknown'] as const
export type ArgoWord = (typeof argoWords)[number]
/** As kas' own verdicts are ordered, worst last: what nobody knows is no failure that anybody has seen. */
export const kasWords: readonly ArgoWord[] = [
  '',
  'Healthy',
  'Suspended',
  'Unknown',
  'Missing',
  'Progressing',
  'Degraded',
]
export type KstatusWord = 'Current' | 'InProgress' | 'Terminating' | 'Failed' | 'Unknown'

/** What is asked for. Unknown keys are refused. */
export interface Query {
  readonly view: ViewName
  readonly scope?: Scope
  readonly filter?: Filter
  /** these alone, `maxObjects` at most; of the view `object` they with what is above and below them */
  readonly objects?: readonly QueryObject[]
  /** of an object itself, as kubectl takes them: `app=web,tier!=cache,zone in (a,b),!canary` */
  readonly labels?: string
  /** of every page */
  readonly sort?: SortName
  /** rows of the root's page: 1 to `maxLimit` */
  readonly limit?: number
  /** of the view `graph`, and nothing else then: what a client of `<prefix>graph` asks for (doc/graph.md) */
  readonly graph?: object
}

export interface QueryObject {
  /** any word that kubectl takes, with its group or without: `deploy`, `Pod`, `apps/Deployment`, `ingresses.networking.k8s.io`, `all` */
  readonly kind: string
  /** absent: any; of a kind without namespaces it says nothing */
  readonly namespace?: string
  /** absent: all of the kind */
  readonly name?: string
  /** the least that is asked for */
  readonly generation?: number
}

export interface Scope {
  /** none: all that may be seen */
  readonly namespaces?: readonly string[]
  /** `<project id>/<slug>` */
  readonly environment?: string
  readonly application?: string
}

/** All of them must hold. */
export interface Filter {
  /** part of a name, of any case */
  readonly text?: string
  /** `group/Kind`; `Kind` of the core group */
  readonly kinds?: readonly string[]
  readonly verdicts?: readonly ArgoWord[]
}

/** Of a client. */
export type ViewsRequest =
  | ({
      readonly type: 'open'
      readonly id: number
      readonly agent: string
      /** what the caller was denied more than 5 s ago is asked anew first */
      readonly fresh?: boolean
    } & Query)
  | {
      readonly type: 'page'
      readonly id: number
      readonly node: string
      readonly limit: number
      /** rows before the first that is wanted, `maxOffset` at most */
      readonly offset?: number
    }
  | { readonly type: 'close'; readonly id: number }

/** To a client. */
export type ViewsMessage =
  | { readonly type: 'update'; readonly id: number; readonly update: Update }
  | { readonly type: 'error'; readonly id: number; readonly code: string; readonly text: string }

/** What differs from the update before; the first of a view differs from nothing. */
export interface Update {
  /** of the view: 1, 2, … ; 1 again: all that was known is gone */
  readonly seq: number
  /** ms since 1970, of the agent's clock */
  readonly at: number
  readonly rows?: readonly Row[]
  /** ids of rows */
  readonly gone?: readonly string[]
  /**
   * of the view `events`: of its root Warnings; of any type, of the page `o:<namespace>:<uid>` those of an object, of
   * `n:<namespace>` those of a namespace, of `n:` all
   */
  readonly events?: readonly EventRow[]
  /** by the node's id */
  readonly pages?: Readonly<Record<string, PageState | null>>
  /** `group/Kind` -> version and plural, of kinds of rows, sent once */
  readonly kinds?: Readonly<Record<string, readonly [version: string, plural: string]>>
  /** when it has changed */
  readonly state?: ViewState
  /** of the view `graph` in the place of rows, in the order in which they are to be taken: arcs that are gone, vertices that are gone */
  readonly darc?: readonly GraphArc[]
  readonly dvx?: readonly number[]
  readonly svx?: readonly GraphVertex[]
  readonly sarc?: readonly GraphArc[]
  /** the rest follows with the next update */
  readonly more?: boolean
  /** there is more than may be shown: as of now */
  readonly cut?: boolean
}

/** The number is of this view, and another one's after it is gone. */
export type GraphVertex = readonly [
  id: number,
  group: string,
  version: string,
  plural: string,
  namespace: string,
  name: string,
]

/** `or`: from an object to its owner; `r`: to what it names. `isAbsent`: 1: the destination is known not to exist */
export type GraphArc = readonly [from: number, to: number, type: GraphArcType, isAbsent?: 0 | 1]
export const graphArcTypes = ['or', 'r'] as const
export type GraphArcType = (typeof graphArcTypes)[number]

/**
 * Ids: an object's uid; `""` the root; `g:<key>` a group; `b:<id>:<kind>` the children of a kind, bundled;
 * `o:<namespace>:<uid>` an owner that is not shown.
 */
export interface Row {
  readonly u: string
  /** `group/Kind`; of a group: `Environment`, `Application` */
  readonly k: string
  readonly ns?: string
  readonly n: string
  /** id of its parent; absent: the root */
  readonly p?: string
  /** created, ms since 1970 */
  readonly t?: number
  /** verdicts of Argo CD, kstatus and kas; absent: none */
  readonly h?: readonly [argo: ArgoWord, kstatus: KstatusWord, kas: ArgoWord]
  /** their texts */
  readonly why?: readonly [argo: string, kstatus: string, kas: string]
  /** facts, such as `2/3 ready` */
  readonly f?: readonly string[]
  /** visible children */
  readonly c?: number
  /** the worst verdict of those below */
  readonly w?: ArgoWord
  /** of a root that is not well: why */
  readonly z?: Cause
  /** `metadata.generation` */
  readonly g?: number
  /** kinds of the state's `aside` that its verdict is made from: `group/Kind` */
  readonly a?: readonly string[]
  /** relation, id, kind, namespace and name of what it is linked with; the id is empty where that is hidden or absent */
  readonly l?: readonly (readonly [relation: string, id: string, kind: string, namespace: string, name: string])[]
}

/** Why an object is not well: what of it, or of what it needs, is the culprit. Texts hold no age. */
export interface Cause {
  /** of the culprit: `group/Kind` */
  readonly kind: string
  readonly namespace: string
  readonly name: string
  /** of its row; empty: it is hidden or absent */
  readonly id: string
  readonly reason: string
  readonly text: string
  /** ms since 1970; absent: unknown */
  readonly since?: number
  /** it was so when it was seen first, and may have been before */
  readonly atLeast?: boolean
  /** when it happened last. ms since 1970 */
  readonly last?: number
  /** culprits by the same cause, of which this one stands for all; absent: 1 */
  readonly count?: number
  /** further causes; absent: none */
  readonly others?: number
  /** a command that only reads; empty: none */
  readonly next: string
  /** it holds up a rollout of the row's workload that may be undone; absent: it does not */
  readonly undo?: true
}

/** Reason of a change that no controller has observed: the cause is the controller, which is no object. */
export const notReconciled = 'NotReconciled'

export interface PageState {
  /** ids, in their order */
  readonly order: readonly string[]
  /** visible children by verdict, those beyond the page included */
  readonly counts: Readonly<Partial<Record<ArgoWord, number>>>
  /** children that are in `order` neither nor before it */
  readonly more: number
  /** children before the first in `order`; absent: none */
  readonly from?: number
}

export interface EventRow {
  readonly u: string
  readonly ns: string
  /** `group/Kind`, name and uid of the object that it is about */
  readonly about: readonly [kind: string, name: string, uid: string]
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly text: string
  readonly count: number
  /** ms since 1970 */
  readonly at: number
}

export interface ViewState {
  readonly is: 'live' | 'syncing' | 'stale'
  /** ms since 1970 */
  readonly since: number
  readonly why?: string
  /** kinds that are not followed: `group/Kind`, with the namespace where only that is not */
  readonly notFollowed?: readonly string[]
  /** of these, kinds that the API server fails to list for long: why, and since when. What is shown of them may be old */
  readonly aside?: readonly (readonly [kind: string, why: string, since: number])[]
  /** what is wrong with the views.yaml of the agent as it stands now, and what is used instead */
  readonly problems?: readonly string[]
  /** who the caller is in the cluster, where something is `refused`; `''`: whom the agent's own account stands for */
  readonly you?: { readonly username: string; readonly groups: readonly string[] }
  /**
   * what the query names and the caller may not list; empty namespace: in the whole cluster, or in none of its
   * namespaces; empty plural: anything at all
   */
  readonly refused?: readonly (readonly [plural: string, namespace: string])[]
  /** kinds that the query names and that there are not, or not for the caller; with the nearest name, or an empty one */
  readonly unknown?: readonly (readonly [word: string, nearest: string])[]
}

/** Bounds that both sides keep (doc/views.md). */
export const viewsBounds = {
  maxQueryBytes: 64 * 1024,
  maxObjects: 500,
  maxOffset: 10_000,
  maxUpdateBytes: 200 * 1024,
  maxLimit: 500,
  maxPages: 200,
  maxRows: 2000,
  maxViewsPerSocket: 20,
  maxViewsPerAgent: 500,
  /** of one graph; ids of vertices are below `maxVertexIds` */
  maxVertices: 5000,
  maxArcs: 10_000,
  maxVertexIds: 16_384,
} as const
