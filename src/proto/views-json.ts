/**
 * Messages of views in JSON (doc/guide/views.md). agentk writes updates, kas passes them on, commands and pages read them.
 * This file imports nothing.
 */

/** Sub-protocol of the WebSocket at `<prefix>views`. */
export const viewsProtocol = 'kas-views-v1'

/** Feature of kas on a session: the leading pod may report facts, and kas sends it the configuration of its views. */
export const viewsFeature = 'views'

export type ViewName = 'tree' | 'list' | 'environments' | 'events' | 'object' | 'graph'

/**
 * Orders of pages: by name, or the youngest first. With `since`, the worst come first as in the default order, and the
 * client sorts its rows.
 */
export const sortNames = ['name', 'age', 'since'] as const
export type SortName = (typeof sortNames)[number]

/** Verdicts in the order of Argo CD, the worst last. The empty one is no verdict. */
export const argoWords = ['', 'Healthy', 'Suspended', 'Progressing', 'Missing', 'Degraded', 'Unknown'] as const
export type ArgoWord = (typeof argoWords)[number]
/** Verdicts in the order of kas, the worst last. `Unknown` comes early, because it is no observed failure. */
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

/** Query for one view. Unknown keys are refused. */
export interface Query {
  readonly view: ViewName
  readonly scope?: Scope
  readonly filter?: Filter
  /** only these objects, `maxObjects` at most; the view `object` also has the objects above and below them */
  readonly objects?: readonly QueryObject[]
  /** label selector in kubectl's syntax, such as `app=web,tier!=cache,zone in (a,b),!canary` */
  readonly labels?: string
  /** order of every page; absent: the worst first */
  readonly sort?: SortName
  /** number of rows of the root's page, 1 to `maxLimit`; absent: 100 */
  readonly limit?: number
  /** request of a client of `<prefix>graph` (doc/reference/graph.md); the view `graph` has this key only */
  readonly graph?: object
}

export interface QueryObject {
  /**
   * any word for kinds that kubectl takes, with or without the group: `deploy`, `Pod`, `apps/Deployment`,
   * `ingresses.networking.k8s.io`, `all`
   */
  readonly kind: string
  /** absent: any namespace; ignored for cluster-scoped kinds */
  readonly namespace?: string
  /** absent: all objects of the kind */
  readonly name?: string
  /** least `metadata.generation`: an older object does not match */
  readonly generation?: number
}

export interface Scope {
  /** absent or empty: all namespaces in which the caller may list */
  readonly namespaces?: readonly string[]
  /** `<project id>/<slug>` */
  readonly environment?: string
  readonly application?: string
}

/** Conditions, all of which must be true. */
export interface Filter {
  /** part of the name, in any case */
  readonly text?: string
  /** `group/Kind`, or `Kind` in the core group */
  readonly kinds?: readonly string[]
  readonly verdicts?: readonly ArgoWord[]
}

/** Message from a client. */
export type ViewsRequest =
  | ({
      readonly type: 'open'
      readonly id: number
      readonly agent: string
      /** true: denials older than 5 s are reviewed again before anything is shown */
      readonly fresh?: boolean
    } & Query)
  | {
      readonly type: 'page'
      readonly id: number
      readonly node: string
      readonly limit: number
      /** number of rows before the page, `maxOffset` at most */
      readonly offset?: number
    }
  | { readonly type: 'close'; readonly id: number }

/** Message to a client. */
export type ViewsMessage =
  | { readonly type: 'update'; readonly id: number; readonly update: Update }
  | { readonly type: 'error'; readonly id: number; readonly code: string; readonly text: string }

/** Changes since the previous update of the view. The first update changes an empty view. */
export interface Update {
  /** number in the view, from 1; another 1: the client discards all rows of the view */
  readonly seq: number
  /** time by the agent's clock, ms since 1970 */
  readonly at: number
  readonly rows?: readonly Row[]
  /** ids of removed rows and events */
  readonly gone?: readonly string[]
  /**
   * new and changed events of the view `events`. The page of the root has Warnings. Other pages have events of any
   * type: `o:<namespace>:<uid>` of an object, `n:<namespace>` of a namespace, `n:` of all namespaces
   */
  readonly events?: readonly EventRow[]
  /** by id of the node; null: the page does not exist, is hidden, or is over a bound */
  readonly pages?: Readonly<Record<string, PageState | null>>
  /** by `group/Kind`: version and plural of a kind of the rows, sent once */
  readonly kinds?: Readonly<Record<string, readonly [version: string, plural: string]>>
  /** absent: unchanged */
  readonly state?: ViewState
  /** removed arcs. The view `graph` has this and the next three keys in place of rows, to be applied in this order */
  readonly darc?: readonly GraphArc[]
  /** ids of removed vertices */
  readonly dvx?: readonly number[]
  /** new vertices */
  readonly svx?: readonly GraphVertex[]
  /** new arcs; an arc whose `isAbsent` changes is removed and sent again */
  readonly sarc?: readonly GraphArc[]
  /** true: the rest follows with the next update */
  readonly more?: boolean
  /** true: the graph is over its bounds now, and not shown completely */
  readonly cut?: boolean
}

/** Vertex of a graph. Its id is unique in the view, and is used again after the vertex is removed. */
export type GraphVertex = readonly [
  id: number,
  group: string,
  version: string,
  plural: string,
  namespace: string,
  name: string,
]

/**
 * Arc of a graph: `or` from an object to its owner, `r` to an object that it names. `isAbsent` is 1 if the destination
 * is known not to exist.
 */
export type GraphArc = readonly [from: number, to: number, type: GraphArcType, isAbsent?: 0 | 1]
export const graphArcTypes = ['or', 'r'] as const
export type GraphArcType = (typeof graphArcTypes)[number]

/**
 * Row of a view. Ids of nodes:
 * - `""`: the root
 * - uid: an object
 * - `g:<key>`: a group
 * - `b:<id>:<kind>`: all children of one kind in one row
 * - `o:<namespace>:<uid>`: an owner that is not shown
 */
export interface Row {
  readonly u: string
  /** `group/Kind`; for a group, `Environment` or `Application` */
  readonly k: string
  readonly ns?: string
  readonly n: string
  /** id of the parent; absent: the root */
  readonly p?: string
  /** time of creation, ms since 1970 */
  readonly t?: number
  /** verdicts of Argo CD, kstatus and kas; absent: none */
  readonly h?: readonly [argo: ArgoWord, kstatus: KstatusWord, kas: ArgoWord]
  /** texts of these verdicts */
  readonly why?: readonly [argo: string, kstatus: string, kas: string]
  /** facts, such as `2/3 ready` */
  readonly f?: readonly string[]
  /** number of visible children; absent: none */
  readonly c?: number
  /** worst verdict of the objects below */
  readonly w?: ArgoWord
  /** cause, if the row is not well */
  readonly z?: Cause
  /** `metadata.generation` */
  readonly g?: number
  /** kinds of the state's `aside` on which the verdict depends: `group/Kind` */
  readonly a?: readonly string[]
  /** linked objects; the id is empty if the object is hidden or absent */
  readonly l?: readonly (readonly [relation: string, id: string, kind: string, namespace: string, name: string])[]
}

/** Cause for which an object is not well. The culprit is the object, or one that it needs. Texts contain no ages. */
export interface Cause {
  /** kind of the culprit: `group/Kind` */
  readonly kind: string
  readonly namespace: string
  readonly name: string
  /** id of the culprit's row; empty: the culprit is hidden or absent */
  readonly id: string
  readonly reason: string
  readonly text: string
  /** start of the trouble, ms since 1970; absent: unknown */
  readonly since?: number
  /** true: the trouble may have begun before `since`, when it was first seen */
  readonly atLeast?: boolean
  /** time of the last occurrence, ms since 1970 */
  readonly last?: number
  /** number of culprits with the same cause, which this one represents; absent: 1 */
  readonly count?: number
  /** number of further causes; absent: none */
  readonly others?: number
  /** command that shows more and only reads; empty: none */
  readonly next: string
  /** the culprit blocks a rollout of the row's workload, and the rollout can be undone; absent: it does not */
  readonly undo?: true
}

/** Reason for a change that no controller has observed. The fault is in the controller, which is no object. */
export const notReconciled = 'NotReconciled'

export interface PageState {
  /** ids of the rows, in order */
  readonly order: readonly string[]
  /** numbers of visible children by verdict, including children beyond the page */
  readonly counts: Readonly<Partial<Record<ArgoWord, number>>>
  /** number of children after the last one in `order` */
  readonly more: number
  /** number of children before the first one in `order`; absent: none */
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
  /** time of the last occurrence, ms since 1970; 0: unknown */
  readonly at: number
}

export interface ViewState {
  readonly is: 'live' | 'syncing' | 'stale'
  /** start of the state, ms since 1970 */
  readonly since: number
  readonly why?: string
  /** kinds that are not followed: `group/Kind`, with the namespace or object if only that one is not followed */
  readonly notFollowed?: readonly string[]
  /** kinds in `notFollowed` that the API server has failed to list for long; their rows may be old */
  readonly aside?: readonly (readonly [kind: string, why: string, since: number])[]
  /** faults in the agent's current `views.yaml`, and what is used in their place */
  readonly problems?: readonly string[]
  /** the caller's identity in the cluster; absent: nothing is `refused`; empty username: the agent's own account */
  readonly you?: { readonly username: string; readonly groups: readonly string[] }
  /** resources of the query that the caller may not list; empty plural: any resource; empty namespace: anywhere */
  readonly refused?: readonly (readonly [plural: string, namespace: string])[]
  /** words of the query that name no kind, or none that the caller may list; empty `nearest`: no name is similar */
  readonly unknown?: readonly (readonly [word: string, nearest: string])[]
}

/** Bounds for writers and readers of views (doc/guide/views.md). */
export const viewsBounds = {
  /** bytes of a query, as JSON */
  maxQueryBytes: 64 * 1024,
  /** objects that a query names */
  maxObjects: 500,
  /** rows before the first one of a page */
  maxOffset: 10_000,
  /** bytes of an update, as JSON */
  maxUpdateBytes: 200 * 1024,
  /** rows of a page */
  maxLimit: 500,
  /** open nodes of a view (`open_nodes_of_view`), each with a page */
  maxPages: 200,
  /** rows of a view */
  maxRows: 2000,
  /** views over one WebSocket (`views_of_socket`) */
  maxViewsPerSocket: 20,
  /** views of an agent, at a replica (`views_of_agent`) and in all (`views_at_agent`) */
  maxViewsPerAgent: 500,
  /** vertices of one graph; their ids are below `maxVertexIds` */
  maxVertices: 5000,
  maxArcs: 10_000,
  maxVertexIds: 16_384,
} as const
