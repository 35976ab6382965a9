import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import type * as z from 'zod'
import type { AgentId } from '../../../src/call/call.ts'
import { GitlabDirectory } from '../../../src/kas/directory/gitlab/gitlab-directory.ts'
import { AuthorizationRechecks } from '../../../src/kas/servers/kubernetes/authorization/authorization-rechecks.ts'
import { authorize } from '../../../src/kas/servers/kubernetes/authorization/authorize.ts'
import type { Credentials } from '../../../src/kas/servers/kubernetes/authorization/credentials.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock } from '../../support/manual-clock.ts'

/** Time until a caller who lost access loses running requests, with answers of GitLab kept for a minute. */

const minuteMs = 60_000
const agentId = 42n as AgentId
const credentials: Credentials = {
  kind: 'user',
  agentId,
  candidates: [{ type: 'personal_access_token', key: 'glpat-ada' }],
}
const { signal } = new AbortController()

function start() {
  const clock = new ManualClock()
  const world = { isAllowed: true, isAway: false, asked: 0 }
  const answer = {
    agent: { id: 42, config_project: { id: 1 } },
    user: { id: 5, username: 'ada' },
    access_as: { agent: {} },
  }
  const client = {
    ask: async <S extends z.ZodType>({ path }: { path: string }, schema: S): Promise<z.output<S>> => {
      world.asked++
      if (world.isAway) throw new KasError({ code: 'GITLAB_UNREACHABLE', path, detail: 'away', headArrived: false })
      if (!world.isAllowed) throw new KasError({ code: 'GITLAB_STATUS', status: 401, path })
      return schema.parse(answer)
    },
    send: () => Promise.reject(new Error('not asked here')),
    pass: () => Promise.reject(new Error('not asked here')),
  }
  const directory = new GitlabDirectory(
    { client, log: capturedLog().log, clock },
    {
      infoTtlMs: minuteMs,
      infoErrorTtlMs: minuteMs,
      projectTtlMs: minuteMs,
      projectErrorTtlMs: minuteMs,
      accessTtlMs: minuteMs,
      accessErrorTtlMs: 10_000,
    },
  )
  const checks = new AuthorizationRechecks({ directory, localDirectory: undefined, clock, log: capturedLog().log })
  checks.start()
  const open = async () => {
    const ended: { code: string; at: number }[] = []
    const withdraw = ({ code }: KasError) => {
      ended.push({ code, at: clock.now() })
      leave()
    }
    const letInAs = await authorize(directory, credentials, signal)
    const leave = checks.add({ credentials, letInAs, withdraw }, checks.changes)
    return ended
  }
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 500) {
      clock.advance(500)
      await setImmediate()
      await setImmediate()
    }
  }
  return { clock, world, checks, open, pass }
}

t.test('within 60 s, whenever it is, also of what was opened by an answer that was kept', async (t) => {
  const late: number[] = []
  for (let revokedAtMs = 0; revokedAtMs <= 120_000; revokedAtMs += 7000) {
    for (const openedLaterMs of [0, 1000, 30_000, 59_000]) {
      const { clock, world, checks, open, pass } = start()
      const first = await open()
      await pass(revokedAtMs)
      world.isAllowed = false
      const revokedAt = clock.now()
      await pass(openedLaterMs)
      const second = await open().catch(() => [])
      await pass(2 * minuteMs)
      checks.stop()
      t.match(first, [{ code: 'USER_UNAUTHORIZED' }], 'once')
      for (const { at } of [...first, ...second]) late.push(at - revokedAt)
    }
  }
  t.ok(Math.max(...late) <= minuteMs, `${Math.max(...late)} ms at the most`)
})

t.test('one question for all that runs, each 50 s; a GitLab that is away ends nothing', async (t) => {
  const { world, open, pass, checks } = start()
  const all = await Promise.all(Array.from({ length: 20 }, () => open()))
  t.equal(world.asked, 1)
  await pass(10 * minuteMs)
  t.ok(world.asked <= 13, `${world.asked} questions in 10 minutes`)
  world.isAway = true
  await pass(10 * minuteMs)
  t.same(all.flat(), [])
  world.isAway = false
  world.isAllowed = false
  await pass(minuteMs)
  t.equal(all.flat().length, 20)
  checks.stop()
})
