import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { ContainedCommits } from '../../../../../src/kas/modules/gitops/contained-commits.ts'
import type { CommitId, Reading } from '../../../../../src/kas/repositories/repositories.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { someAgent } from '../../../../support/fake-agent-call.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const [head, before, other] = ['a', 'b', 'c'].map((digit) => digit.repeat(40)) as [CommitId, CommitId, CommitId]
const reading: Reading = { id: someAgent.id, project: someAgent.project }

const commitOf = (i: number) => i.toString(16).padStart(40, '0')

function start(answer: (commit: CommitId) => Promise<boolean>) {
  const asked: CommitId[] = []
  const clock = new ManualClock()
  const contains = (_: Reading, __: CommitId, commit: CommitId) => {
    asked.push(commit)
    return answer(commit)
  }
  const commits = new ContainedCommits({ repositories: { contains }, clock, log: capturedLog().log })
  return {
    asked,
    clock,
    commits,
    find: (commit: string, at: string = head, caller = 'ada') => commits.find(reading, at, commit, caller),
  }
}

t.test('nobody waits: it is known at the next question, and asked once', async (t) => {
  const { asked, find } = start(async (commit) => commit === before)
  t.equal(find(head), true)
  t.strictSame([find(before), find(before), find(other)], [undefined, undefined, undefined])
  await setImmediate()
  t.strictSame([find(before), find(other)], [true, false])
  t.strictSame(asked, [before, other])
  for (const name of ['main', before.slice(0, 12), `${before.slice(1)}G`, ''])
    t.equal(find(name), false, 'it may be the name of a branch')
  t.equal(find(before, 'main'), false)
  t.equal(asked.length, 2)
})

t.test('a repository that cannot be asked contains nothing, and is asked again later', async (t) => {
  let fails = true
  const { asked, clock, find } = start(async () => {
    if (fails) throw new Error('away')
    return true
  })
  find(before)
  await setImmediate()
  t.equal(find(before), false)
  fails = false
  await clock.pass(31_000)
  t.equal(find(before), undefined)
  await setImmediate()
  t.equal(find(before), true)
  t.equal(asked.length, 2)
})

t.test('so many are asked at once, and none after the end', async (t) => {
  const { asked, commits, find } = start(() => new Promise(() => undefined))
  for (const caller of ['ada', 'bob', 'eve'])
    for (let i = 0; i < 100; i++) t.equal(find(commitOf(i), caller === 'ada' ? head : other, caller), undefined)
  await setImmediate()
  t.equal(asked.length, 20)
  commits.stop()
  t.equal(find(commitOf(200)), undefined)
  await setImmediate()
  t.equal(asked.length, 20)
})

t.test('a caller that asks a slow repository in a loop costs others no answer', async (t) => {
  const slow = Promise.withResolvers<boolean>()
  const { asked, find } = start((commit) => (commit === before ? Promise.resolve(true) : slow.promise))
  for (let i = 0; i < 2000; i++) {
    find(commitOf(i), head, 'eve')
    if (i % 100 === 0) await setImmediate()
  }
  find(before)
  await setImmediate()
  t.equal(find(before), true)
  for (let i = 2000; i < 4000; i++) find(commitOf(i), head, 'eve')
  t.equal(find(before), true, 'it is kept')
  t.equal(asked.filter((commit) => commit !== before).length, 10)
  slow.resolve(false)
  for (let i = 0; i < 20; i++) await setImmediate()
  for (let i = 4000; i < 8000; i++) {
    find(commitOf(i), head, 'eve')
    if (i % 100 === 0) await setImmediate()
  }
  t.equal(find(before), true, 'nor do quick answers')
})

t.test('what was asked for longest makes room, and is not asked for in vain', async (t) => {
  const { asked, find } = start(async () => false)
  for (let i = 0; i < 1500; i++) find(commitOf(i))
  for (let i = 0; i < 3000; i++) await setImmediate()
  t.strictSame([find(commitOf(400)), find(commitOf(1499))], [undefined, false])
  t.ok(asked.length <= 1100, `${asked.length}`)
})
