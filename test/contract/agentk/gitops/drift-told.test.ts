import t, { type Test } from 'tap'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { eventually } from '../../../support/eventually.ts'
import { patience } from '../../../support/slowness.ts'
import { skip } from './ground.ts'
import { changesByKubectl } from './told-by-kubectl.ts'
import { changesByOthers } from './told-by-others.ts'
import { withRestart } from './told-changes.ts'
import { type ObjectRequests, readRequests } from './told-requests.ts'
import { type MadeChange, startToldCluster, type ToldCluster, ToldSource, type ToldSourceOptions } from './told-side.ts'

/**
 * Whatever others change is told: by which manager, from which value to which, soon, and in few calls. With kubectl on
 * a real API server, agentk acting as a service account. KAS_DRIFT_OBJECTS: objects of a source.
 */

const objects = Number(process.env.KAS_DRIFT_OBJECTS ?? 100)
/** Limit between a write and its row. ms */
const toldMs = 2000
/** Limit of agentk's calls about an object from a change to its row. */
const maxCalls = 4
/** Limit of those after the row, for its health: a read, and another one in place of each event that comes meanwhile. */
const maxLaterCalls = 4
const changes = [...changesByKubectl, ...changesByOthers]

/** Changes whose time or author the API server does not know, so that a source that corrects makes rounds for them. */
const ofRounds = changes.filter(({ about }) => /patch configmap|label secret|rollout undo|delete configmap/.test(about))

t.test('what others change is told', { skip, timeout: 600_000 }, async (t) => {
  t.ok(changesByKubectl.length >= 30 && changesByOthers.length >= 10, `${changes.length} changes`)
  const cluster = await startToldCluster(t)
  await t.test('where it is only reported', async (t) => {
    const options = { projectId: 541n, drift: { mode: 'report' }, changes, objects }
    await play(t, cluster, options)
  })
  await t.test('where it is corrected', async (t) => {
    await play(t, cluster, { projectId: 542n, drift: { after: '3600s' }, changes: ofRounds, objects })
  })
})

/** Makes all changes, and checks each. */
async function play(t: Test, cluster: ToldCluster, options: Omit<ToldSourceOptions, 'more'>): Promise<void> {
  const more = [{ kind: 'ConfigMap' }, { kind: 'ConfigMap' }, { kind: 'Deployment', git: withRestart }] as const
  const source = new ToldSource(cluster, { ...options, more })
  await source.start(t)
  t.equal(source.state?.drifted.length, 0, 'nothing differs at first')
  const made: MadeChange[] = []
  for (const [i, { about }] of options.changes.entries()) {
    await t.test(about, async () => void made.push(await source.make(i)))
  }
  const [changed, restored, restarted] = [0, 1, 2].map((i) => source.keyOf(options.changes.length + i)) as [
    ObjectKey,
    ObjectKey,
    ObjectKey,
  ]
  const compared = source.compared(restarted)
  await cluster.kubectl.ok(['rollout', 'restart', `deployment/${restarted.name}`])
  await compared
  await t.test('two changes within one second', () => changeTwice(source, changed, 'blue'))
  await t.test('a change within one second, and back', async () => {
    await changeTwice(source, restored, 'green')
    await source.becomes(restored, { differs: false })
  })

  const requestsOf = await readRequests(cluster.auditLogFile)
  const values = await source.values()
  await t.test('soon, and in few calls', async (t) => {
    const prices = made.map((one) => priceOf(t, one, requestsFor(cluster, one, requestsOf)))
    checkTimes(t, prices, source.state?.driftMode === 'report' ? 0.9 : 0.5)
  })
  await t.test('with values, and with the manager where the API server knows it', async (t) => {
    for (const { key, about, fields, row } of made) {
      const found = values.get(key.name)
      if (row.deleted && row.correctAtMs > 0n) continue // it has been made again meanwhile
      t.strictSame(found?.fields.toSorted(), [...fields].sort(), about)
    }
    const second = 'changed .data.color "green" -> "blue" by kubectl-edit (Update)'
    t.strictSame(values.get(changed.name)?.fields, [second], 'the second value')
    t.equal(values.has(restarted.name), false, 'a restart that is later than Git’s is no change')
  })
  await source.stop()
}

function requestsFor(
  { ground }: ToldCluster,
  { key }: MadeChange,
  requestsOf: Awaited<ReturnType<typeof readRequests>>,
): ObjectRequests {
  return requestsOf(ground.kinds.find(key)?.plural ?? '', key.name)
}

interface Price {
  readonly about: string
  /** time between the last write and the row */
  readonly ms: number
  readonly calls: number
}

/** Checks the calls about one object, and the time in its row. */
function priceOf(t: Test, { about, row, toldAt }: MadeChange, { writes, calls: all, asItself }: ObjectRequests): Price {
  const { receivedAt = 0, endedAt = 0 } = writes.at(-1) ?? {}
  // a round that sets something back, or records since when something differs, reads objects without the label
  const calls = row.left === 'mode' ? all : all.filter((one) => one.receivedAt <= toldAt)
  const until = calls.filter((one) => one.receivedAt <= toldAt).length
  const later = calls.length - until
  t.ok(until > 0 && until <= maxCalls && later <= maxLaterCalls, `${until} calls, and ${later} later: ${about}`)
  t.strictSame(asItself, [], `as the source's account: ${about}`)
  const changedAt = Number(row.changedAtMs)
  const isTimed = row.manager !== '' && !/scale/.test(about)
  const [least, latest] = isTimed ? [Math.floor(receivedAt / 1000) * 1000, endedAt] : [0, 0]
  t.ok(changedAt >= least && changedAt <= latest, `${row.changedAtMs} is the time of the write: ${about}`)
  return { about, ms: Math.round(toldAt - receivedAt), calls: until }
}

/**
 * Checks and prints the times.
 *
 * @param share - of the rows that are in time: the machine may be busy, and a round delays rows to its end
 */
function checkTimes(t: Test, prices: readonly Price[], share: number): void {
  t.comment(prices.map(({ ms, calls, about }) => `${ms} ms, ${calls} calls: ${about}`).join('\n'))
  const times = prices.map(({ ms }) => ms).sort((a, b) => a - b)
  const calls = Math.max(...prices.map((one) => one.calls))
  t.comment(`${objects} objects, ${prices.length} changes: at most ${times.at(-1)} ms and ${calls} calls`)
  t.ok((times[Math.floor((times.length - 1) * share)] ?? 0) <= patience(toldMs), `in time: ${share}`)
}

/** Changes a value of a ConfigMap twice within a second, which leaves the metadata equal: first to `red`. */
async function changeTwice(source: ToldSource, key: ObjectKey, last: string): Promise<void> {
  const { drift, ground } = source.cluster
  const patch = (color: string) => drift.patch(key, 'merge', 'kubectl-edit', { data: { color } })
  const ownersOf = async () => JSON.stringify((await ground.get(key)).metadata.managedFields)
  await eventually(async () => {
    const second = await drift.nextSecond()
    const compared = source.compared(key)
    await patch('red')
    await compared
    const before = await ownersOf()
    await patch(last)
    return (await ownersOf()) === before && (await drift.serverTime()) === second // else the machine was slow
  })
  await source.compared(key)
}
