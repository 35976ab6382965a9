import type { ViewState } from '../../../../../proto/views-json.ts'
import type { ShownView } from '../shown-view.ts'
import { kindOf } from './object-item.ts'
import { timeOf } from './time.ts'
import type { ViewDescription } from './views-output-kinds.ts'

export interface ViewBeside {
  readonly agentId: string
  /** reasons for which not all requested objects are shown */
  readonly problems: readonly string[]
  /** reason for which the connection was lost; undefined: it is there */
  readonly lost?: string | undefined
}

/** Describes a view as a whole, for programs. */
export function viewDescription({ state, at }: ShownView, beside: ViewBeside): ViewDescription {
  const { notFollowed, aside, you, refused, unknown } = state
  return {
    agent: Number(beside.agentId),
    ...reliance(state, at, beside),
    problems: listed(beside.problems),
    configurationProblems: listed(state.problems),
    notFollowed: listed(notFollowed),
    aside: listed(aside?.map(([kind, message, since]) => ({ ...kindOf(kind), message, since: timeOf(since) }))),
    you: you?.username ? you : undefined,
    refused: listed(
      refused?.map(([resource, namespace]) => ({
        resource: resource === '' ? undefined : resource,
        namespace: namespace === '' ? undefined : namespace,
      })),
    ),
    unknownKinds: listed(unknown?.map(([word, nearest]) => ({ word, nearest: nearest === '' ? undefined : nearest }))),
  }
}

/** Describes a view without an answer. */
export function unreachedView(agentId: string, reason: string): ViewDescription {
  return { agent: Number(agentId), state: 'unreached', stateMessage: reason }
}

type Reliance = Pick<ViewDescription, 'state' | 'stateSince' | 'stateMessage' | 'asOf'>

/** @param at - time of the last update, in ms since 1970 by the agent's clock */
function reliance({ is, since, why }: ViewState, at: number, { lost }: ViewBeside): Reliance {
  if (lost !== undefined) {
    // a view that was not live before is as old as it was then
    const asOf = is === 'live' ? at : is === 'stale' ? since : undefined
    return { state: 'stale', stateSince: timeOf(asOf), stateMessage: lost, asOf: timeOf(asOf) }
  }
  const asOf = is === 'live' ? at : is === 'stale' ? since || undefined : undefined
  return { state: is, stateSince: timeOf(since || undefined), stateMessage: why || undefined, asOf: timeOf(asOf) }
}

const listed = <Item>(all: readonly Item[] | undefined) => (all && all.length > 0 ? all : undefined)
