import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { ContainedCommits } from '../../../../../src/kas/modules/gitops/contained-commits.ts'
import type { CommitId, Reading } from '../../../../../src/kas/repositories/repositories.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { someAgent } from '../../../../support/fake-agent-call.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const [head, before, other] = ['a', 'b', 'c'].map((digit) => digit.repeat(40)) as [CommitId, CommitId, CommitId]
const reading: Reading = { id: someAgent.id, project: someAgent.project }

function start(answer: (commit: CommitId) => Promise<boolean>) {
  const asked: CommitId[] = []
  const clock = new ManualClock()
  const contains = (_: Reading, __: CommitId, commit: CommitId) => {
    asked.push(commit)
    return answer(commit)
  }
  const commits = new ContainedCommits({ repositories: { contains }, clock, log: capturedLog().log })
  return { asked, clock, commits, find: (commit: string, at: string = head) => commits.find(reading, at, commit) }
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
  const commit = (i: number) => i.toString(16).padStart(40, '0')
  for (let i = 0; i < 100; i++) t.equal(find(commit(i)), undefined)
  t.equal(asked.length, 20)
  commits.stop()
  t.equal(find(commit(200)), undefined)
  t.equal(asked.length, 20)
})
