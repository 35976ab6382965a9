import t, { type Test } from 'tap'
import { EndedGround, type Entry, entries, type Person, type Way } from '../support/ended-ground.ts'
import { skip } from '../support/kubectl-stack.ts'
import {
  type EndedStream,
  endedWithin,
  type LastingKind,
  type LastingStream,
  openLasting,
  saidBy,
} from '../support/lasting-streams.ts'

/**
 * A caller that loses access loses all running streams, at the replica that holds the agent and at another one. kubectl
 * prints the reason.
 */

/**
 * limits after a change of the directory file, and more after one of the agent's file, which kas polls every 3 s. ms
 */
const boundMs = 5000
const repositoryMs = 3000
/** time for kubectl and its process to end. ms */
const endingMs = 1500

const few = ['watch', 'exec, WebSocket'] as const

t.test('ended means ended', { skip, timeout: 240_000 }, async (t) => {
  const ground = await EndedGround.start(t)
  const open = async (entry: Entry, person: Person, only?: readonly LastingKind[]) =>
    openLasting(await ground.side(entry, person), only)
  const others = (await Promise.all(entries.map((entry) => open(entry, 'bob', few)))).flat()

  const loses = async (t: Test, way: Way, only?: readonly LastingKind[]) => {
    const person = way === 'job' ? 'job' : 'ada'
    const streams = (await Promise.all(entries.map((entry) => open(entry, person, only)))).flat()
    await ground.lose(way)
    const limitMs = boundMs + endingMs + (way === 'user_access' ? repositoryMs : 0)
    const ended = await endedWithin(streams, 30_000)
    for (const [i, { what, ms, exit }] of ended.entries()) {
      t.ok(ms <= limitMs, `${what}: after ${Math.round(ms)} ms: ${exit.stderr.trim()}`)
      t.equal(exit.code, what.endsWith('watch') ? 0 : 1, `${what}: exit status`) // kubectl takes no event for a failure
      if (streams[i]?.saysWhy) t.match(saidBy(exit), /Unauthorized|Forbidden/, what)
    }
    othersGoOn(t, others)
    await ground.restore()
    return ended
  }

  await t.test('a token is taken away', async (t) => {
    const ended = await loses(t, 'token')
    const said = (what: string) => textOf(ended, what)
    for (const entry of entries) {
      t.match(said(`${entry}, ada: watch`), /^ERROR .*GitLab Agent Server: Unauthorized$/m)
      for (const form of ['WebSocket', 'SPDY'])
        t.match(said(`${entry}, ada: exec, ${form}`), /^error: GitLab Agent Server: Unauthorized$/m)
      t.match(ground.kas[entry].stdout, /"event":"end".*"subresource":"exec".*"reason":"USER_UNAUTHORIZED"/)
    }
  })
  await t.test('a user is removed', (t) => loses(t, 'user', few))
  await t.test('a role is taken away', (t) => loses(t, 'role', few))
  await t.test("the agent's user_access names her project no longer", (t) => loses(t, 'user_access', few))
  await t.test('a CI job is over', (t) => loses(t, 'job', few))

  await t.test('an operator ends what runs, at all replicas', async (t) => {
    const streams = (await Promise.all(entries.map((entry) => open(entry, 'ada', few)))).flat()
    const listed = (await ground.operator('sessions', '--user', 'ada')).trimEnd().split('\n').slice(1)
    t.equal(listed.length, 4, listed.join('\n'))
    for (const what of [/ watch configmaps ended .* kas-0$/, / watch configmaps ended .* kas-1$/])
      t.match(listed.join('\n'), new RegExp(what, 'm'))
    t.match(listed.join('\n'), / pods\/exec ended\/web-\S+ -- sh/)
    t.match(
      await ground.operator('sessions', 'end', '--user', 'ada', '--reason', 'maintenance'),
      /^kas-1 +2\nkas-0 +2$/m,
    )
    for (const { what, exit } of await endedWithin(streams, boundMs))
      t.match(saidBy(exit), /GitLab Agent Server: Ended by an operator: maintenance/, what)
    othersGoOn(t, others)
  })

  const late = `late-${process.pid}`
  const { kubectl } = await ground.side('holder', 'bob')
  await kubectl.ok(['create', 'configmap', late])
  for (const { what, process } of others.filter(({ what }) => what.endsWith('watch')))
    await t.resolves(process.says(new RegExp(`ADDED +${late} `)), `${what} sees what is made later`)
  othersGoOn(t, others)
})

/** kubectl ends a watch without a word on stderr */
function othersGoOn(t: Test, others: readonly LastingStream[]): void {
  for (const { what, process } of others)
    t.ok(process.isRunning && process.stderr === '', `${what} goes on: ${process.stderr}`)
}

function textOf(ended: readonly EndedStream[], what: string): string {
  const found = ended.find((each) => each.what === what)
  return found ? saidBy(found.exit) : ''
}
