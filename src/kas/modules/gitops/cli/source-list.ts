import type {
  ConfigurationStatus,
  DriftedObject,
  HealthCounts,
  LeavingObject,
  PolledHead,
  SourceFailure,
  SourceObject,
  SourceStatus,
  SourcesDescription,
  UnhealthyObject,
} from './output-kinds.ts'
import type { ShownSource, ShownState } from './state.ts'

/** Converts kas' answer about sources to the data for programs. */

/** Values of the command beside those of the answer. */
export interface Shown {
  readonly agentId: string
  /** when the answer came, by the command's clock, in ms since 1970 */
  readonly at: number
  readonly exitCode: number
}

/** @param state - undefined: kas was not reached */
export function sourcesDescription(
  state: Omit<ShownState, 'sources'> | undefined,
  { agentId, at, exitCode }: Shown,
): SourcesDescription {
  const { agent, away, configuration, cut = false, commit } = state ?? {}
  return {
    agent: Number(agentId),
    agentState: agent,
    agentMessage: agent === 'absent' ? filled(away?.text) : undefined,
    exitCode,
    configuration: configuration && configurationStatus(configuration, at),
    searchedCommit: filled(commit),
    incomplete: cut,
  }
}

function configurationStatus(
  { commit, phase, problem, next, polled }: NonNullable<ShownState['configuration']>,
  at: number,
): ConfigurationStatus {
  return {
    commit: filled(commit),
    phase: filled(phase),
    message: filled(problem),
    next: filled(next),
    polled: polled && polledHead(polled, at),
  }
}

/** @param at - when the answer came, by the command's clock, in ms since 1970 */
export function sourceStatus(source: ShownSource, at: number): SourceStatus {
  const { project, name, ref, phase, reason, problem, next, stale, commit, wanted, plan, object, cut = false } = source
  const { age_ms: age, at_ms: reported = '0', applied_at_ms: applied, compared_at_ms: compared } = source
  const { trouble, leaving = [], kept = [], drifted = [], drift_mode: mode, orphan = [], environment = [] } = source
  /** Converts a time of the agent's clock, which may differ: only its distance to the report counts. */
  const timeOf = (ms = '0') =>
    ms === '0' || reported === '0' ? undefined : timeText(at - (age ?? 0) - (Number(reported) - Number(ms)))
  return {
    id: source.source,
    project: filled(project),
    name: filled(name),
    ref: filled(ref),
    phase,
    reason: filled(reason),
    message: filled(problem),
    next: filled(next),
    stale,
    commit: filled(commit),
    wanted: filled(wanted),
    configurationTaken: source.is_current,
    counts: source.counts && countsOf(source.counts),
    reported: timeOf(reported),
    applied: timeOf(applied),
    compared: timeOf(compared),
    polled: source.polled && polledHead(source.polled, at),
    plan: filled(plan),
    failures: trouble.map(failureOf),
    leaving: leaving.map(leavingObject),
    kept: kept.map(leavingObject),
    drifted: drifted.map((one) => driftedObject(one, timeOf)),
    driftMode: filled(mode),
    orphans: orphan.map(sourceObject),
    environments: environment,
    statusObject: filled(object),
    leftToOthers: (source.left_to_others ?? []).map(({ key, path, manager, rule }) => ({
      object: key && sourceObject(key),
      path,
      manager,
      rule,
    })),
    unwatched: source.unwatched ?? [],
    health: source.health && healthCounts(source.health),
    unhealthy: (source.unhealthy ?? []).map((one) => unhealthyObject(one, timeOf)),
    unlisted: source.unlisted ?? [],
    withheld: source.withheld ?? 0,
    incomplete: cut,
  }
}

function countsOf({
  objects,
  applied,
  unchanged,
  failed,
  waiting,
  pruned,
  survivors: surviving,
  drifted,
  not_compared: notCompared,
  would_change: wouldChange,
  orphans,
}: NonNullable<ShownSource['counts']>) {
  const differing = { drifted, notCompared, wouldChange }
  return { objects, applied, unchanged, failed, waiting, pruned, surviving, ...differing, orphans }
}

function healthCounts(counts: NonNullable<ShownSource['health']>): HealthCounts {
  const { healthy, progressing, degraded, suspended, missing, unknown, unread } = counts
  return { healthy, progressing, degraded, suspended, missing, unknown, unread }
}

function unhealthyObject(
  { key, word, culprit, reason, text, since_ms: since }: NonNullable<ShownSource['unhealthy']>[number],
  timeOf: (ms: string) => string | undefined,
): UnhealthyObject {
  return {
    object: key && sourceObject(key),
    verdict: word,
    culprit: culprit && sourceObject(culprit),
    reason: filled(reason),
    message: filled(text),
    since: timeOf(since),
  }
}

/** @param timeOf - converts a time of the agent's clock */
export function driftedObject(
  drifted: NonNullable<ShownSource['drifted']>[number],
  timeOf: (ms: string) => string | undefined,
): DriftedObject {
  const { key, kind, deleted, path, more_paths: morePaths, manager, operation, left, text, file, line } = drifted
  const { changed_at_ms: changed, since_ms: since, correct_at_ms: corrected, hold_until_ms: holdUntil } = drifted
  return {
    object: key && sourceObject(key),
    kind,
    deleted,
    paths: path,
    morePaths,
    manager: filled(manager),
    operation: filled(operation),
    changed: timeOf(changed),
    since: timeOf(since),
    corrected: timeOf(corrected),
    leftBecause: filled(left),
    holdUntil: timeOf(holdUntil),
    message: filled(text),
    file: filled(file),
    line: line === 0 ? undefined : line,
  }
}

function failureOf({ key, text, file, line }: ShownSource['trouble'][number]): SourceFailure {
  return { object: key && sourceObject(key), message: text, file: filled(file), line: line === 0 ? undefined : line }
}

function leavingObject({ key, code, text }: NonNullable<ShownSource['leaving']>[number]): LeavingObject {
  return { object: key && sourceObject(key), reason: filled(code), message: text }
}

function sourceObject({
  group,
  version,
  kind,
  namespace,
  name,
}: NonNullable<ShownSource['orphan']>[number]): SourceObject {
  return { group: filled(group), version: filled(version), kind, namespace: filled(namespace), name }
}

function polledHead({ commit, age_ms: age, contains }: NonNullable<ShownSource['polled']>, at: number): PolledHead {
  return { commit: filled(commit), time: timeText(at - age), containsCommit: contains }
}

const filled = (text: string | undefined) => (text === '' ? undefined : text)

/** First and last moment that RFC 3339 can write, in ms since 1970. */
const firstMs = Date.parse('0000-01-01T00:00:00Z')
const lastMs = Date.parse('9999-12-31T23:59:59.999Z')

/** @param ms - since 1970. @returns undefined: RFC 3339 cannot write it */
export function timeText(ms: number): string | undefined {
  return ms >= firstMs && ms <= lastMs ? new Date(ms).toISOString() : undefined
}
