import t, { type Test } from 'tap'
import { delay } from '../../src/lib/signals.ts'
import { EndedGround, entries, type GitlabWay, gitlabWays, type Way, ways } from '../support/ended-ground.ts'
import { skip } from '../support/kubectl-stack.ts'
import { endedWithin, type LastingKind, openLasting, saidBy } from '../support/lasting-streams.ts'

/** Callers lose access again and again, and with it all kinds of streams at two replicas, in each way. */

const { times } = JSON.parse(process.env.KAS_SOAK_OPTIONS ?? '{"times":20}') as { times: number }

/** limits after a change of the directory file, which kas reads at once, and of GitLab's answer. ms */
const boundMs = { file: 5000, gitlab: 60_000 }
/** limit after a change of the agent's repository, which kas polls every 3 s. ms */
const repositoryMs = 4000
/** time for kubectl and its process to end, beside many others. ms */
const endingMs = 2000
const withoutViews: readonly LastingKind[] = [
  'watch',
  'exec, WebSocket',
  'exec, SPDY',
  'port-forward, WebSocket',
  'port-forward, SPDY',
  'logs --follow',
]

/** Both last longer than all rounds of a way; the API server ends a watch after 30 minutes or later. */
const othersHave: readonly LastingKind[] = ['watch', 'exec, WebSocket']

/** Pause before GitLab's answer changes, so that changes come at different times between two polls of kas. ms */
function calmMs(way: Way | GitlabWay, i: number): number {
  return way === 'gitlab' || way === 'gitlab_job' ? (i % 4) * 17_000 : 0
}

interface Round {
  readonly ground: EndedGround
  readonly way: Way | GitlabWay
  readonly limitMs: number
  readonly only?: readonly LastingKind[]
}

async function play(t: Test, { ground, way, limitMs, only }: Round): Promise<void> {
  const person = way === 'job' || way === 'gitlab_job' ? 'job' : 'ada'
  const late = new Map<string, number>()
  const others = await openAt(ground, 'bob', othersHave)
  for (let i = 0; i < times; i++) {
    const streams = await openAt(ground, person, only)
    await delay(calmMs(way, i))
    await ground.lose(way)
    for (const { what, ms, exit } of await endedWithin(streams, 2 * limitMs)) {
      late.set(what, Math.max(late.get(what) ?? 0, ms))
      const saysWhy = streams.some((each) => each.what === what && each.saysWhy)
      if (ms > limitMs) t.fail(`${way}, ${what}: after ${Math.round(ms)} ms`)
      // kubectl does not take the error event for a failure
      if (exit.code === 0 && !what.endsWith('watch')) t.fail(`${way}, ${what}: exit status 0: ${exit.stderr}`)
      if (saysWhy && !/Unauthorized|Forbidden/.test(saidBy(exit))) t.fail(`${way}, ${what}: ${exit.stderr}`)
    }
    await ground.restore()
  }
  for (const [what, ms] of late) t.comment(`${way}, ${what}: ${times} times, within ${Math.round(ms)} ms`)
  for (const { what, process } of others) {
    t.ok(process.isRunning && process.stderr === '', `${way}: ${what} goes on: ${process.stdout}${process.stderr}`)
    process.signal('SIGKILL')
    await process.exited
  }
}

async function openAt(ground: EndedGround, person: 'ada' | 'bob' | 'job', only?: readonly LastingKind[]) {
  return (await Promise.all(entries.map(async (entry) => openLasting(await ground.side(entry, person), only)))).flat()
}

t.test('ended', { skip }, async (t) => {
  const ground = await EndedGround.start(t)
  for (const way of ways) {
    const limitMs = boundMs.file + endingMs + (way === 'user_access' ? repositoryMs : 0)
    await play(t, { ground, way, limitMs })
  }
})

t.test('ended by GitLab', { skip }, async (t) => {
  const ground = await EndedGround.startWithGitlab(t)
  for (const way of gitlabWays) await play(t, { ground, way, limitMs: boundMs.gitlab + endingMs, only: withoutViews })
})
