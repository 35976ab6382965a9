import type { Attack } from './attack.ts'
import { badMetadata } from './attacks/bad-metadata.ts'
import { budgetSelectors } from './attacks/budget-selectors.ts'
import { hellosOfFewNetworks, hellosOfManyNetworks } from './attacks/client-hellos.ts'
import { deltaBomb } from './attacks/delta-bomb.ts'
import { descriptors } from './attacks/descriptors.ts'
import { fatRequests } from './attacks/fat-requests.ts'
import { fatRows } from './attacks/fat-rows.ts'
import { fatWaitingCalls } from './attacks/fat-waiting-calls.ts'
import { foreignPages } from './attacks/foreign-pages.ts'
import { fleetOfProjects, fleetOfTenant } from './attacks/greedy-fleets.ts'
import { greedyIdentities } from './attacks/greedy-identities.ts'
import { greedyStreams } from './attacks/greedy-streams.ts'
import { greedyWatches } from './attacks/greedy-watches.ts'
import { gzip } from './attacks/gzip.ts'
import { halfMessages } from './attacks/half-messages.ts'
import { halfWebSockets } from './attacks/half-websockets.ts'
import { heavyAnswers } from './attacks/heavy-answers.ts'
import { heavyCommits } from './attacks/heavy-commits.ts'
import { heavyStates } from './attacks/heavy-states.ts'
import { idleCallers } from './attacks/idle-callers.ts'
import { idleConnects } from './attacks/idle-connects.ts'
import { knocking } from './attacks/knocking.ts'
import { longErrors } from './attacks/long-errors.ts'
import { longHeads } from './attacks/long-heads.ts'
import { longQueries } from './attacks/long-queries.ts'
import { longestRequests } from './attacks/longest-requests.ts'
import { madeUpTokens } from './attacks/made-up-tokens.ts'
import { manyConnections } from './attacks/many-connections.ts'
import { manyHeaders } from './attacks/many-headers.ts'
import { ownBodies } from './attacks/own-bodies.ts'
import { ownSockets } from './attacks/own-sockets.ts'
import { ownViews } from './attacks/own-views.ts'
import { ownerChains } from './attacks/owner-chains.ts'
import { pausedExecs } from './attacks/paused-execs.ts'
import { reportStream } from './attacks/report-stream.ts'
import { singleBytes } from './attacks/single-bytes.ts'
import { slowHooks } from './attacks/slow-hooks.ts'
import { slowReaders } from './attacks/slow-readers.ts'
import { stateStream } from './attacks/state-stream.ts'
import { unreadReplies } from './attacks/unread-replies.ts'
import { unreadViews } from './attacks/unread-views.ts'
import { waitingCalls } from './attacks/waiting-calls.ts'
import { wideRounds } from './attacks/wide-rounds.ts'

/** All attacks that are played. */
export const attacks: readonly Attack<unknown>[] = [
  descriptors,
  longErrors,
  gzip,
  badMetadata,
  fatRows,
  manyHeaders,
  idleConnects,
  manyConnections,
  waitingCalls,
  fatWaitingCalls,
  slowReaders,
  unreadReplies,
  unreadViews,
  longestRequests,
  knocking,
  halfMessages,
  halfWebSockets,
  singleBytes,
  fatRequests,
  stateStream,
  reportStream,
  wideRounds,
  madeUpTokens,
  foreignPages,
  budgetSelectors,
  ownerChains,
  deltaBomb,
  heavyCommits,
  heavyStates,
  heavyAnswers,
  greedyWatches,
  greedyStreams,
  greedyIdentities,
  hellosOfFewNetworks,
  hellosOfManyNetworks,
  ownSockets,
  ownViews,
  longQueries,
  ownBodies,
  slowHooks,
  pausedExecs,
  longHeads,
  fleetOfTenant,
  fleetOfProjects,
  idleCallers,
] as Attack<unknown>[]
