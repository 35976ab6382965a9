import type { Test } from 'tap'
import { delay } from '../../src/lib/signals.ts'
import {
  type AskedRepositoriesOptions,
  hookedProject,
  hookSecret,
  startAskedRepositories,
} from './asked-repositories.ts'
import { eventually } from './eventually.ts'
import { hookKinds, sendHook } from './git-hooks.ts'

export interface AskedRoundsOptions extends AskedRepositoriesOptions {
  readonly pollMs: number
  /** duration of the count */
  readonly windowMs: number
  /** allowed reads of all polled repositories in that time */
  readonly maxAsked: number
  /** limit from a hook to the agent, far below the time to the next poll. ms */
  readonly maxHookMs: number
  /** limit until another replica polls after the kill of the one that did. ms */
  readonly maxTakeOverMs: number
}

const { signal } = new AbortController()

/** Counts at the Git server which replica reads which repository, and how often. */
export async function askedRounds(t: Test, options: AskedRoundsOptions): Promise<void> {
  const { pollMs, windowMs, maxAsked, maxHookMs, maxTakeOverMs, projects, replicas: count } = options
  const world = await startAskedRepositories(t, options)
  const polled = Array.from({ length: projects }, (_, i) => i + 1)
  const since = (at: number) => world.asked().filter((each) => each.at >= at && each.project <= projects)
  const askersOf = (questions: ReturnType<typeof since>) =>
    new Map(polled.map((each) => [each, new Set(questions.flatMap(({ project, by }) => (project === each ? by : [])))]))
  const settled = () => {
    const askers = [...askersOf(since(performance.now() - 2.5 * pollMs)).values()]
    return askers.every(({ size }) => size === 1)
  }
  await eventually(settled, { timeoutMs: 60_000 + 10 * pollMs })

  const beganAt = performance.now()
  await delay(windowMs, signal)
  const counted = since(beganAt)
  const askers = askersOf(counted)
  t.ok(counted.length <= maxAsked, `${counted.length} questions in ${windowMs / 1000} s, allowed: ${maxAsked}`)
  t.ok(
    [...askers.values()].every(({ size }) => size === 1),
    'each repository is asked by one replica',
  )
  const shares = Array.from({ length: count }, (_, i) => counted.filter(({ by }) => by === `kas-${i}`).length)
  t.comment(
    `${counted.length} questions for ${projects} repositories in ${windowMs / 1000} s, by replica: ${shares.join(', ')}`,
  )

  const project = hookedProject(options)
  const hookOf = (port: number | undefined) => ({ url: `http://127.0.0.1:${port}/k8s-proxy/hooks/git/${project}` })
  for (const [i, kind] of hookKinds.entries()) {
    const { kubernetesPort } = world.replicas[i % count] as (typeof world.replicas)[number]
    const commit = await world.push(project, kind)
    const sentAt = performance.now()
    await sendHook(hookOf(kubernetesPort), kind, hookSecret)
    await eventually(() => world.having(project, commit) === options.agentsOfProject)
    const ms = Math.round(performance.now() - sentAt)
    t.ok(ms <= maxHookMs, `a hook of ${kind}: all of its agents have the commit after ${ms} ms, allowed: ${maxHookMs}`)
  }

  const [killed = ''] = askers.get(1) ?? []
  const orphaned = polled.filter((each) => askers.get(each)?.has(killed))
  world.replicas.find(({ name }) => name === killed)?.process.signal('SIGKILL')
  const killedAt = performance.now()
  const isTakenOver = () => {
    const taken = askersOf(since(killedAt).filter(({ by }) => by !== killed))
    return orphaned.every((each) => (taken.get(each)?.size ?? 0) > 0)
  }
  await eventually(isTakenOver, { timeoutMs: 2 * maxTakeOverMs })
  const ms = Math.round(performance.now() - killedAt)
  t.ok(
    ms <= maxTakeOverMs,
    `${killed} was killed: its ${orphaned.length} repositories are asked by others after ${ms} ms`,
  )
  const survivor = world.replicas.find(({ name }) => name !== killed)
  const commit = await world.push(project, 'after the kill')
  const sentAt = performance.now()
  await sendHook(hookOf(survivor?.kubernetesPort), 'github', hookSecret)
  // agents of the killed replica do not come back
  await eventually(() => world.having(project, commit) > 0)
  t.ok(performance.now() - sentAt <= maxHookMs, 'and hooks are heard')
}
