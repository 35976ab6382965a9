import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { RecentPushes } from '../../../../../src/kas/modules/flux/recent-pushes.ts'
import type { PushEvent } from '../../../../../src/kas/repositories/local-pushes.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const agentId = 42n as AgentId

function start(options: { rememberMs: number; maxProjects: number }) {
  const clock = new ManualClock()
  let publish: (push: PushEvent) => void = () => undefined
  const source = {
    onPush(listener: (push: PushEvent) => void) {
      publish = listener
      return () => undefined
    },
  }
  const pushes = new RecentPushes({ clock, pushes: source }, options)
  let lastId = 100n
  const push = (projectPath: string) => publish({ projectId: 1n, projectPath, id: ++lastId })
  const paths = () => [...pushes.recent()].map(({ projectPath }) => projectPath)
  return { clock, pushes, push, paths }
}

t.test('the newest push of each project is remembered for a time', async (t) => {
  const { clock, push, paths } = start({ rememberMs: 1000, maxProjects: 10 })
  push('a')
  clock.advance(500)
  push('b')
  push('a')
  t.strictSame(paths(), ['b', 'a'])
  clock.advance(999)
  t.strictSame(paths(), ['b', 'a'])
  clock.advance(1)
  t.strictSame(paths(), [])
})

t.test('what a peer knows is taken, once, as old as it is', async (t) => {
  const { clock, pushes, push, paths } = start({ rememberMs: 1000, maxProjects: 3 })
  const received: string[] = []
  pushes.onPush(agentId, ({ push: { projectPath, id } }) => void received.push(`${projectPath} ${id}`))
  const known = (projectPath: string, id: bigint, ageMs: number) => ({ projectId: 1n, projectPath, id, ageMs })
  push('a')
  clock.advance(500)
  received.length = 0
  const ofPeer = [known('a', 9n, 600), known('b', 1n, 700), known('c', 2n, 100), known('d', 3n, 1000)]
  pushes.learn(ofPeer)
  pushes.learn(ofPeer)
  t.strictSame(received, ['b 1', 'c 2'], 'not what is older than its own, nor what is forgotten')
  t.strictSame(paths(), ['b', 'a', 'c'])
  pushes.learn([known('a', 4n, 100)])
  t.strictSame(received.slice(2), ['a 4'], 'a newer one')
  clock.advance(300)
  t.strictSame(paths(), ['c', 'a'])
  t.match(pushes.known(), [known('c', 2n, 400), known('a', 4n, 400)])
  clock.putBack(500)
  push('z')
  clock.putBack(100)
  t.ok(
    pushes.known().every(({ ageMs }) => ageMs >= 0),
    'by a clock that was set back too',
  )
})

t.test('of so many projects; the oldest pushes make room', async (t) => {
  const { push, paths } = start({ rememberMs: 1000, maxProjects: 3 })
  for (const path of ['a', 'b', 'c', 'a', 'd']) push(path)
  t.strictSame(paths(), ['c', 'a', 'd'])
})

t.test('a clock that was put back makes nothing live longer', async (t) => {
  const { clock, push, paths } = start({ rememberMs: 1000, maxProjects: 3 })
  push('a')
  clock.putBack(1)
  t.strictSame(paths(), [])
})

t.test('after the end of a subscription its listener is not called', async (t) => {
  const { pushes, push } = start({ rememberMs: 1000, maxProjects: 3 })
  const received: string[] = []
  const unsubscribe = pushes.onPush(agentId, ({ push: { projectPath } }) => received.push(projectPath))
  push('a')
  unsubscribe()
  push('b')
  t.strictSame(received, ['a'])
})

t.test('what may not have reached an agent is told to its streams alone, and once', async (t) => {
  const { pushes, push } = start({ rememberMs: 1000, maxProjects: 10 })
  const told: string[] = []
  const otherId = 43n as AgentId
  const listen = (id: AgentId, name: string) =>
    pushes.onPush(
      id,
      ({ push: { projectPath }, again }) => void told.push(`${name} ${projectPath}${again ? ' again' : ''}`),
    )
  const leave = listen(agentId, 'gone')
  listen(agentId, 'own')
  listen(otherId, 'other')
  leave()
  push('a')
  t.strictSame(told.splice(0), ['own a', 'other a'])
  const [known] = pushes.recent()
  if (!known) throw new Error('it was forgotten')
  pushes.resend(known, agentId)
  t.strictSame(told, [], 'it was not told by this replica')
  known.notified.add(agentId).add(otherId)
  pushes.resend(known, agentId)
  pushes.resend(known, agentId)
  t.strictSame(told, ['own a again'])
})
