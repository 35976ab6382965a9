import { getEventListeners } from 'node:events'
import t from 'tap'
import { abortable, Cancellation, delay, linkedController } from '../../../src/lib/signals.ts'

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

t.test('abortable settles as its promise, or throws the reason, and leaves no listener', async (t) => {
  const { signal } = new AbortController()
  t.equal(await abortable(Promise.resolve(1), signal), 1)
  await t.rejects(abortable(Promise.reject(new Error('own')), signal), { message: 'own' })
  t.equal(listeners(signal), 0)

  const controller = new AbortController()
  const waiting = abortable(new Promise(() => undefined), controller.signal)
  controller.abort(new Error('reason'))
  await t.rejects(waiting, { message: 'reason' })
  await t.rejects(abortable(Promise.resolve(1), controller.signal), { message: 'reason' }, 'aborted before')
  t.equal(listeners(controller.signal), 0)
})

t.test('delay ends after its time, or with the reason, and leaves no listener', async (t) => {
  const { signal } = new AbortController()
  await delay(1, signal)
  t.equal(listeners(signal), 0)
  const controller = new AbortController()
  const waiting = delay(3_600_000, controller.signal)
  controller.abort(new Error('reason'))
  await t.rejects(waiting, { message: 'reason' })
  await t.rejects(delay(1, controller.signal), { message: 'reason' })
  t.equal(listeners(controller.signal), 0)
})

t.test('a linked controller aborts with any of its signals, until it is disposed', async (t) => {
  const [a, b] = [new AbortController(), new AbortController()]
  const linked = linkedController(a.signal, undefined, b.signal)
  b.abort(new Error('b'))
  t.match(linked.signal.reason, { message: 'b' })
  linked.dispose()
  t.equal(listeners(a.signal) + listeners(b.signal), 0)

  const later = linkedController(a.signal)
  later.dispose()
  a.abort()
  t.notOk(later.signal.aborted)
  t.ok(linkedController(a.signal).signal.aborted, 'aborted before')
})

t.test('abortable: a promise that nobody waits for any more may reject', async (t) => {
  const faults: unknown[] = []
  const onFault = (error: unknown) => void faults.push(error)
  process.on('unhandledRejection', onFault)
  t.teardown(() => process.off('unhandledRejection', onFault))
  const aborted = AbortSignal.abort(new Error('reason'))
  await t.rejects(abortable(Promise.reject(new Error('own')), aborted), { message: 'reason' })
  await new Promise((resolve) => setImmediate(resolve)) // by then node reports such rejections
  t.same(faults, [])
})

t.test('the last listener of a cancellation is called, once; one that comes later at once', async (t) => {
  const cancellation = new Cancellation()
  const called: string[] = []
  cancellation.onCancel(() => called.push('first'))
  cancellation.onCancel(() => called.push('second'))
  t.notOk(cancellation.isCancelled)
  cancellation.cancel()
  cancellation.cancel()
  t.ok(cancellation.isCancelled)
  cancellation.onCancel(() => called.push('late'))
  t.same(called, ['second', 'late'])
})

t.test('nobody need listen to a cancellation', async (t) => {
  const cancellation = new Cancellation()
  cancellation.onCancel(() => t.fail('it listens no more'))
  cancellation.onCancel(undefined)
  cancellation.cancel()
  cancellation.onCancel(undefined)
})
