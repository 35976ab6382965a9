import { getEventListeners } from 'node:events'
import t, { type Test } from 'tap'
import { JobThread, programBeside, type ThreadJob, WorkerHost } from '../../../src/lib/worker-host.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { Seeded } from '../../support/seeded.ts'
import type { TestJob } from './worker-host-program.ts'

const options = {
  program: programBeside(import.meta.url, 'worker-host-program'),
  name: 'test',
  label: 'the thread of the test',
  memoryLimitMb: 16,
  youngGenerationMb: 4,
}
const { signal: forever } = new AbortController()

const job = (request: TestJob): ThreadJob<TestJob, string, string> => ({
  request,
  onAnswer: (answer, { resolve }) => resolve(answer),
  tooLate: () => 'too late',
  tooLarge: () => 'too large',
})

function start(t: Test) {
  const clock = new ManualClock(0)
  const thread = new JobThread<TestJob, string>({ clock }, { ...options, timeLimitMs: 1000, idleMs: 500 })
  t.teardown(async () => {
    await thread.end()
    await thread.ended()
    if (clock.pending > 0) throw new Error('a timer is kept')
  })
  return { thread, clock, run: (request: TestJob, signal = forever) => thread.run(job(request), signal) }
}

t.test('a worker gives what it is asked, and says once how it ended', async (t) => {
  for (const [request, message] of [
    [{ do: 'throw' }, 'by the program'],
    [{ do: 'exit' }, 'the thread of the test ended with 7'],
  ] as const) {
    const [answers, ends]: [string[], Error[]] = [[], []]
    const ended = Promise.withResolvers<void>()
    const host = new WorkerHost<TestJob, string>(options, {
      onMessage: (answer) => answers.push(answer),
      onEnded: (error) => {
        ends.push(error)
        ended.resolve()
      },
    })
    host.post({ give: 'a' })
    await eventually(() => answers.length === 1)
    host.post(request)
    await ended.promise
    await host.end()
    t.strictSame(answers, ['a'])
    t.match(ends, [{ message }])
    t.equal(ends.length, 1)
  }
})

t.test('one that is ended says nothing more', async (t) => {
  const ends: Error[] = []
  const host = new WorkerHost<TestJob, string>(options, { onMessage: () => {}, onEnded: (error) => ends.push(error) })
  host.post({ do: 'hang' })
  await Promise.all([host.end(), host.end()])
  t.strictSame(ends, [])
})

t.test('a job that takes too long, or too much, ends its thread and nothing else', async (t) => {
  const { thread, clock, run } = start(t)
  t.equal(await run({ give: 'a' }), 'a')
  const late = run({ do: 'hang' })
  await t.rejects(run({ give: 'b' }), /has a job/)
  clock.advance(1000)
  t.equal(await late, 'too late')
  await thread.ended()
  t.equal(await run({ do: 'grow' }), 'too large')
  await t.rejects(run({ do: 'throw' }), { message: 'by the program' })
  await t.rejects(run({ do: 'exit' }), { message: 'the thread of the test ended with 7' })
  const leaving = new AbortController()
  const left = run({ do: 'hang' }, leaving.signal)
  leaving.abort(new Error('left'))
  await t.rejects(left, { message: 'left' })
  t.equal(getEventListeners(leaving.signal, 'abort').length, 0)
  t.equal(await run({ give: 'c' }), 'c')
})

t.test('a handler that throws ends the job; one may ask for more, and end the thread', async (t) => {
  const { thread } = start(t)
  const onAnswer = () => {
    throw new Error('not usable')
  }
  await t.rejects(thread.run({ ...job({ give: 'a' }), onAnswer }, forever), { message: 'not usable' })
  const answers: string[] = []
  const all = await thread.run<string>(
    {
      ...job({ do: 'count' }),
      onAnswer: (answer, { post, resolve, endThread }) => {
        answers.push(answer)
        if (answer === '2') post({ give: 'last' })
        if (answer !== 'last') return
        endThread()
        resolve('done')
      },
    },
    forever,
  )
  t.equal(all, 'done')
  t.strictSame(answers, ['0', '1', '2', 'last'])
})

t.test('jobs at random: each has its own answer, and an idle thread ends', async (t) => {
  const { thread, clock, run } = start(t)
  const seeded = Seeded.for(t)
  for (let i = 0; i < 30; i++) {
    const kind = seeded.int(8)
    if (kind === 0) await t.rejects(run({ do: 'throw' }))
    else if (kind === 1) {
      const late = run({ do: 'hang' })
      clock.advance(1000)
      t.equal(await late, 'too late')
    } else t.equal(await run({ give: `${i}` }), `${i}`)
    if (seeded.chance(0.3)) clock.advance(500)
    if (seeded.chance(0.3)) await thread.ended()
  }
  clock.advance(500)
  t.equal(clock.pending, 0)
})
