import t, { type Test } from 'tap'
import type { AgentId } from '../../../../../../src/call/call.ts'
import { type AgentFeedOptions, defaultAgentFeed } from '../../../../../../src/kas/modules/views/feed/agent-feed.ts'
import { type Away, Code, KasError } from '../../../../../../src/lib/errors.ts'
import { viewsBounds } from '../../../../../../src/proto/views-json.ts'
import { startFeeds } from '../../../../../support/feeds.ts'
import { ManualClock, settle } from '../../../../../support/manual-clock.ts'
import { agentId, FakeFollows, FakeViewer } from './fake-follows.ts'

const ada = { username: 'ada', groups: ['dev'], uid: '', extra: [{ key: 'k', val: ['v'] }] }
const query = (text: string) => Buffer.from(text)
const lost = new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })

function start(t: Test, options: Partial<AgentFeedOptions> = {}) {
  const clock = new ManualClock()
  const follows = new FakeFollows()
  const world: { serves: boolean | undefined; away: Away | undefined } = { serves: true, away: undefined }
  const components = { forward: follows.forward, serves: () => world.serves, away: () => world.away, clock }
  const { feeds, register } = startFeeds(t, components, options)
  const open = (text = '{"view":"tree"}', as: typeof ada | undefined = undefined) => {
    const viewer = new FakeViewer()
    return { viewer, view: feeds.open(agentId, { caller: { key: 'ada' }, as, query: query(text) }, viewer) }
  }
  return { clock, follows, world, feeds, open, register }
}

t.test('one Follow for all views of an agent; each is opened as its caller', async (t) => {
  const { follows, open } = start(t)
  const one = open('a', ada)
  const two = open('b')
  await settle()
  t.equal(follows.all.length, 1)
  const { last: follow } = follows
  t.match(follow.call, { agentId, method: '/agentk.views.v1.Views/Follow', safety: 'safe' })
  t.strictSame([await follow.step(), await follow.step()], ['1 open ada a', '2 open agent b'])
  follow.say({ view: 2, seq: 1, update: '{"seq":1}' })
  await settle()
  t.strictSame([one.viewer.got, two.viewer.got], [[], ['{"seq":1}']])
  t.equal(await follow.step(), '2 taken 1')
  one.view.page('g:x', 20)
  t.equal(await follow.step(), '1 page g:x 20')
  one.view.close()
  t.equal(await follow.step(), '1 close')
  follow.say({ view: 1, seq: 1, update: '{}' })
  await settle()
  t.strictSame(one.viewer.got, [], "what came after it was closed is nobody's")
})

t.test('the next update may come once the viewer has taken the last', async (t) => {
  const { follows, open } = start(t)
  const { viewer } = open()
  await settle()
  const { last: follow } = follows
  await follow.step()
  viewer.stall()
  follow.say({ view: 1, seq: 1, update: '{"seq":1}' })
  await settle()
  const next = follow.step()
  let said: string | undefined
  void next.then((step) => {
    said = step
  })
  await settle()
  t.equal(said, undefined)
  viewer.take()
  t.equal(await next, '1 taken 1')
})

t.test('an agent that does not wait, says too much, or nothing: that view ends', async (t) => {
  const { follows, open } = start(t)
  const [hasty, large, fine] = [open('a'), open('b'), open('c')]
  await settle()
  const { last: follow } = follows
  for (let i = 0; i < 3; i++) await follow.step()
  hasty.viewer.stall()
  follow.say({ view: 1, seq: 1, update: '{}' }).say({ view: 1, seq: 2, update: '{}' })
  follow.say({ view: 2, seq: 1, update: ' '.repeat(viewsBounds.maxUpdateBytes + 1) })
  fine.viewer.refusal = new KasError({ code: 'INVALID_MESSAGE', detail: 'no JSON' })
  follow.say({ view: 3, seq: 1, update: '{' })
  await settle()
  t.match(hasty.viewer.error, { code: 'INVALID_MESSAGE' })
  t.match(large.viewer.error, { code: 'MESSAGE_TOO_LARGE' })
  t.match(fine.viewer.error, { message: 'no JSON' })
  t.strictSame([await follow.step(), await follow.step(), await follow.step()], ['1 close', '2 close', '3 close'])
})

t.test('a fault of the agent ends its view, and the agent need not hear of it', async (t) => {
  const { follows, open } = start(t)
  const [one, odd, third, other] = [open('a'), open('b'), open('c'), open('d')]
  await settle()
  const { last: follow } = follows
  for (let i = 0; i < 4; i++) await follow.step()
  follow.say({ view: 1, fault: { code: 'BAD_REQUEST', text: 'Bad request: view: no' } })
  follow.say({ view: 2, fault: { code: '<html>', text: 'x'.repeat(5000) } })
  await settle()
  follow.say({ view: 3, fault: { code: 'TOO_MANY_STREAMS', text: 'too many' } })
  await settle()
  t.match(one.viewer.error, { code: 'BAD_REQUEST', message: 'Bad request: view: no', httpStatus: 400 })
  t.match(odd.viewer.error?.spec, { code: 'VIEW_ENDED', agentCode: 'INTERNAL', detail: 'x'.repeat(512) })
  t.match(third.viewer.error?.spec, { code: 'VIEW_ENDED', agentCode: 'TOO_MANY_STREAMS', detail: 'too many' })
  other.view.close()
  t.equal(await follow.step(), '4 close')
})

t.test('what is no message at all, or too long for one view, ends the Follow, and it is opened again', async (t) => {
  const { follows, open, clock } = start(t)
  open('a')
  await settle()
  follows.last.sayBytes(Buffer.from([0xff]))
  await clock.pass(60)
  t.equal(follows.all.length, 2)
  follows.last.sayBytes(Buffer.alloc(viewsBounds.maxUpdateBytes + 10_000))
  await clock.pass(200)
  t.equal(follows.all.length, 3)
})

t.test('a Follow that is lost is opened again with each view and its open nodes, numbered anew', async (t) => {
  const { follows, open, clock } = start(t)
  const gone = open('gone')
  const one = open('a', ada)
  await settle()
  const { last: first } = follows
  for (let i = 0; i < 2; i++) await first.step()
  gone.view.close()
  one.view.page('x', 10)
  one.view.page('y', 10)
  one.view.page('x', 30)
  one.view.page('y', 0)
  first.say({ view: 2, seq: 1, update: '{"seq":1}' })
  await settle()
  first.end(lost)
  await settle()
  t.equal(follows.all.length, 1, 'after a pause')
  await clock.pass(50)
  const { last: second } = follows
  t.not(second, first)
  t.strictSame([await second.step(), await second.step()], ['1 resume ada a', '1 page x 30'])
  second.say({ view: 1, seq: 1, update: '{"seq":1,"rows":[]}' })
  await settle()
  t.equal(await second.step(), '1 taken 1')
  await clock.pass(10_000)
  t.strictSame(one.viewer.got, ['{"seq":1}', '{"seq":1,"rows":[]}'], 'nobody was told that it is stale')
  t.equal(await first.step(), 'end', 'and nothing is said on the first any more')
})

t.test('a new view of an agent that has been away for long fails soon, those from before wait', async (t) => {
  const { follows, open, world, clock } = start(t)
  const { viewer } = open()
  await settle()
  await follows.last.step()
  follows.last.say({ view: 1, seq: 7, update: '{"seq":7}' })
  await settle()
  world.away = { agentId: '42', awayMs: 30_000 }
  world.serves = undefined
  const late = open()
  await clock.pass(defaultAgentFeed.newcomerMs)
  t.match(late.viewer.error, { code: 'AGENT_NOT_CONNECTED', message: /agent 42 for at least 30 s/ })
  const newcomer = open()
  world.away = undefined // this replica now sees the agent's first connection too
  await clock.pass(defaultAgentFeed.newcomerMs)
  t.equal(newcomer.viewer.error, undefined)
  t.match(follows.last.call, { waitsForAway: true }, 'it is the first to be followed when it is back')
  t.equal(viewer.error, undefined)
})

t.test('an agent that stays away: what viewers have is stale, once, and whole when it is back', async (t) => {
  const { follows, open, clock } = start(t)
  const { viewer } = open()
  await settle()
  await follows.last.step()
  follows.last.say({ view: 1, seq: 7, update: '{"seq":7}' })
  await settle()
  follows.failure = new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 20_000 })
  follows.last.end(lost)
  const since = clock.now()
  await clock.pass(60_000)
  const why = 'The connection of the agent was lost'
  t.strictSame(
    viewer.got.slice(1).map((text) => JSON.parse(text)),
    [{ seq: 8, at: since + 1000, state: { is: 'stale', since, why } }],
  )
  follows.failure = undefined
  await clock.pass(10_000)
  await follows.last.step()
  follows.last.say({ view: 1, seq: 1, update: '{"seq":1}' })
  await settle()
  t.equal(viewer.got.at(-1), '{"seq":1}')
  t.equal(viewer.error, undefined)
})

t.test('a viewer that has not taken the last when the agent is lost gets the newest alone', async (t) => {
  const { follows, open, clock } = start(t)
  const { viewer } = open()
  await settle()
  await follows.last.step()
  viewer.stall()
  follows.last.say({ view: 1, seq: 1, update: '{"seq":1}' })
  await settle()
  for (const seq of [1, 1, 1]) {
    follows.last.end(lost)
    await clock.pass(2000)
    follows.last.say({ view: 1, seq, update: `{"seq":${seq},"follow":${follows.all.length}}` })
    await settle()
  }
  viewer.take()
  await settle()
  t.strictSame(viewer.got, ['{"seq":1}', '{"seq":1,"follow":4}'])
  await follows.last.step()
  t.equal(await follows.last.step(), '1 taken 1')
})

t.test('pauses between Follows grow; a pod that has led is asked no longer than it takes', async (t) => {
  const { follows, open, clock } = start(t)
  open()
  await settle()
  follows.last.say({ view: 1, seq: 1, update: '{"seq":1}' })
  const pauses: number[] = []
  for (let i = 0; i < 9; i++) {
    const [known, at] = [follows.all.length, clock.now()]
    follows.last.end(lost)
    await settle()
    while (follows.all.length === known) await clock.pass(clock.waits[0] ?? 0)
    pauses.push(clock.now() - at)
  }
  t.strictSame(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000, 2000])
  await clock.pass(1000)
  follows.last.say({ view: 1, seq: 1, update: '{"seq":1}' })
  await settle()
  const [known, at] = [follows.all.length, clock.now()]
  follows.last.end(lost)
  await settle()
  while (follows.all.length === known) await clock.pass(clock.waits[0] ?? 0)
  t.equal(clock.now() - at, 50, 'after one that was good')
  const unserved = new KasError({ code: 'STATUS', grpc: Code.UNIMPLEMENTED, message: 'unknown method' })
  const before = follows.all.length
  for (let i = 0; i < 12; i++) {
    follows.last.end(unserved)
    await settle()
  }
  t.equal(follows.all.length, before + 12, 'idle tunnels of the pod that led are used up at once')
  for (let i = 0; i < 40; i++) {
    follows.last.end(unserved)
    await settle()
  }
  t.ok(follows.all.length < before + 40, 'but an agent that never serves it is not asked without end')
})

t.test('an agent without views is refused at once, and each time', async (t) => {
  const { follows, open, world, feeds } = start(t)
  world.serves = false
  const { viewer } = open()
  await settle()
  t.match(viewer.error, { code: 'VIEWS_NOT_SERVED', httpStatus: 404 })
  t.equal(follows.all.length, 0)
  t.equal(feeds.agents, 0)
  world.serves = true
  const later = open()
  await settle()
  t.equal(await follows.last.step(), '1 open agent {"view":"tree"}')
  world.serves = false
  follows.last.end(lost)
  await settle()
  await settle()
  t.equal(later.viewer.error, undefined)
})

t.test('who opens a view in the moment of the refusal finds the next feed', async (t) => {
  const { world, feeds } = start(t)
  world.serves = false
  const second = new FakeViewer()
  const first = new FakeViewer()
  first.ended = () => void feeds.open(agentId, { caller: { key: 'ada' }, as: undefined, query: query('again') }, second)
  feeds.open(agentId, { caller: { key: 'ada' }, as: undefined, query: query('a') }, first)
  await settle()
  await settle()
  t.match(second.error, { code: 'VIEWS_NOT_SERVED' })
  t.equal(feeds.views, 0)
})

t.test('a new view waits 20 s for an agent that is away, or that nobody leads', async (t) => {
  const { follows, open, world, clock } = start(t)
  follows.failure = new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 20_000 })
  world.serves = undefined
  const away = open()
  await clock.pass(19_999)
  t.equal(away.viewer.error, undefined)
  await clock.pass(1)
  t.match(away.viewer.error, { code: 'AGENT_NOT_CONNECTED' })
  world.serves = true
  const unled = open()
  await clock.pass(20_000)
  t.match(unled.viewer.error, { code: 'VIEWS_NOT_LED', httpStatus: 503 })
})

t.test('a caller that becomes another one: the view begins anew, with its nodes', async (t) => {
  const { follows, open } = start(t)
  const { view, viewer } = open('a', ada)
  await settle()
  const { last: follow } = follows
  await follow.step()
  view.page('n', 5)
  await follow.step()
  viewer.stall()
  follow.say({ view: 1, seq: 4, update: '{"seq":4}' })
  await settle()
  view.reopen(undefined)
  // not `resume`, because the viewer has rows of another caller
  t.strictSame(
    [await follow.step(), await follow.step(), await follow.step()],
    ['1 close', '2 open agent a', '2 page n 5'],
  )
  follow.say({ view: 1, seq: 5, update: '{"secret":1}' }).say({ view: 2, seq: 1, update: '{"seq":1}' })
  await settle()
  viewer.take()
  await settle()
  t.strictSame(viewer.got, ['{"seq":4}', '{"seq":1}'], 'nothing of the old one follows')
})

t.test('30 s after its last view the Follow ends', async (t) => {
  const { follows, open, clock, feeds } = start(t)
  open().view.close()
  await clock.pass(20_000)
  const again = open()
  await clock.pass(15_000)
  t.equal(follows.all.length, 1)
  t.notOk(follows.last.call.signal.aborted)
  again.view.close()
  await clock.pass(29_999)
  t.notOk(follows.last.call.signal.aborted)
  await clock.pass(1)
  t.ok(follows.last.call.signal.aborted)
  t.equal(feeds.agents, 0)
  t.strictSame(clock.waits, [])
})

t.test('500 views of an agent, 200 open nodes of each', async (t) => {
  const { open, feeds } = start(t)
  const { view } = open()
  for (let i = 1; i < viewsBounds.maxViewsPerAgent; i++) open()
  t.throws(() => open(), { code: 'TOO_MANY_STREAMS' })
  view.close()
  const { view: other } = open()
  t.equal(feeds.views, 500)
  for (let i = 0; i < viewsBounds.maxPages; i++) other.page(`n${i}`, 10)
  t.throws(() => other.page('one more', 10), { code: 'TOO_MANY_STREAMS' })
  other.page('n0', 0)
  other.page('one more', 10)
})

t.test('views take turns, and say what is newest', async (t) => {
  const { follows, open } = start(t)
  const views = [open('a'), open('b'), open('c')]
  await settle()
  for (const { view } of views) for (let limit = 1; limit <= 100; limit++) view.page('n', limit)
  const steps: string[] = []
  for (let i = 0; i < 6; i++) steps.push(await follows.last.step())
  t.strictSame(steps, [
    '1 open agent a',
    '2 open agent b',
    '3 open agent c',
    '1 page n 100',
    '2 page n 100',
    '3 page n 100',
  ])
})

t.test('a view that is closed before the agent has heard of it', async (t) => {
  const { follows, open } = start(t)
  open('a')
  await settle()
  await follows.last.step()
  for (let i = 0; i < 1000; i++) open('never').view.close()
  open('b')
  t.equal(await follows.last.step(), '1002 open agent b')
})

t.test('nodes that are opened and closed while the agent does not read leave nothing to be said', async (t) => {
  const { follows, open } = start(t)
  const { view } = open('a')
  await settle()
  view.page('kept', 10)
  t.match([await follows.last.step(), await follows.last.step()], ['1 open agent a', '1 page kept 10'])
  for (let i = 0; i < 10_000; i++) {
    view.page(`n${i}`, 10)
    view.page(`n${i}`, 0)
    view.page(`never${i}`, 0)
  }
  view.page('kept', 0)
  view.page('last', 10)
  t.strictSame([await follows.last.step(), await follows.last.step()], ['1 page kept 0', '1 page last 10'])
})

t.test('over 1 MiB that viewers have not taken nothing more is read, for a second', async (t) => {
  const { follows, open, clock } = start(t)
  const all = Array.from({ length: 20 }, () => open())
  await settle()
  const { last: follow } = follows
  for (const _ of all) await follow.step()
  const update = `{"x":"${'x'.repeat(150_000)}"}`
  const [slow, quick] = [all.slice(0, 10), all.slice(10)]
  for (const { viewer } of slow) viewer.stall()
  for (let view = 1; view <= 20; view++) follow.say({ view, seq: 1, update })
  await settle()
  t.equal(follow.unread, 13, 'seven are over 1 MiB')
  await clock.pass(999)
  t.equal(follow.unread, 13)
  await clock.pass(1)
  t.equal(follow.unread, 0, 'those that take nothing hold the others up no longer')
  for (const { viewer } of quick) t.equal(viewer.got.length, 1)
  for (const { viewer } of slow) viewer.take()
  await settle()
  const steps = new Set<string>()
  for (let i = 0; i < 20; i++) steps.add(await follow.step())
  t.equal(steps.size, 20, 'each is taken in the end')
})

t.test('what is counted', async (t) => {
  const { follows, open, register } = start(t)
  open()
  open()
  await settle()
  follows.last.say({ view: 1, seq: 1, update: '{"seq":1}' })
  await settle()
  const lines = (await register.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  t.strictSame(lines, ['kas_views_open 2', 'kas_views_updates_total 1', 'kas_views_update_bytes_total 9'])
})

t.test('at the stop all end, and no more are opened', async (t) => {
  const { follows, open, feeds, clock } = start(t)
  const { viewer } = open()
  await settle()
  await feeds.stop()
  t.match(viewer.error, { code: 'SHUTTING_DOWN' })
  t.ok(follows.last.call.signal.aborted)
  t.throws(() => open(), { code: 'SHUTTING_DOWN' })
  t.strictSame(clock.waits, [])
})

t.test(
  'an agent that speaks of views that there never were: its Follow ends, and is opened with a pause',
  async (t) => {
    const { follows, open } = start(t)
    const { view, viewer } = open()
    await settle()
    const { last: follow } = follows
    view.close()
    open()
    for (let i = 0; i < 4; i++) follow.say({ view: 1, seq: 1, update: '{}' })
    await settle()
    t.equal(follow.call.signal.aborted, false, 'what was on its way when a view was closed')
    for (let i = 0; i < 1000; i++) follow.say({ view: 1000 + i, seq: 1, update: '{}' })
    await settle()
    t.equal(follow.call.signal.aborted, true)
    t.ok(follow.unread > 900)
    t.equal(follows.all.length, 1)
    t.strictSame(viewer.got, [])
  },
)

t.test('ids of open nodes have room together, whatever is made up', async (t) => {
  const { open } = start(t)
  const { view } = open()
  for (let i = 0; i < 64; i++) view.page(`${i}`.padEnd(1000, 'x'), 1)
  t.throws(() => view.page('y'.repeat(1600), 1), { code: 'TOO_MANY_STREAMS' })
  const { view: other } = open()
  for (let i = 0; i < 200; i++) other.page(`${i}`.padEnd(300, 'x'), 1)
})

t.test('callers share the views of an agent: who has most makes room, and is told', async (t) => {
  const { feeds, follows } = start(t, { maxViews: 3 })
  const open = (key: string, userKey?: string, id = agentId) => {
    const viewer = new FakeViewer()
    const caller = { key, ...(userKey === undefined ? {} : { userKey }) }
    feeds.open(id, { caller, as: undefined, query: query('q') }, viewer)
    return viewer
  }
  const [one, two, three] = [open('project', 'ann'), open('project', 'eve'), open('project', 'eve')]
  t.throws(() => open('project', 'bob'), { message: /Too many views of this agent, allowed: 3. You hold 3 of them/ })
  const other = open('carl')
  t.match(three.error, { code: 'TOO_MANY_STREAMS', message: /You hold 3 of them/ })
  for (const viewer of [one, two, other]) t.equal(viewer.error, undefined)
  open('project', 'ann', 43n as AgentId)
  await settle()
  const keys: string[] = []
  for (const follow of follows.all) {
    for (let request = await follow.next(); request; request = undefined) {
      const { value } = request.step as { value: { caller: { key: string; userKey: string } } }
      keys.push(value.caller.key, value.caller.userKey)
    }
  }
  t.equal(new Set(keys).size, 4, 'the agent hears keys, at each agent another')
  for (const key of keys) t.match(key, /^[\w-]{22}$/)
})
