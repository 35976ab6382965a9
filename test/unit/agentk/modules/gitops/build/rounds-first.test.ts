import t from 'tap'
import { RoundsFirst } from '../../../../../../src/agentk/modules/gitops/build/rounds-first.ts'
import { Turns } from '../../../../../../src/lib/turns.ts'

/** Builds of previews, and turns of rounds. */

const { signal } = new AbortController()
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

/** A build that ends when the test says so, or when it is aborted. */
function builds() {
  const begun: AbortSignal[] = []
  const ends: ((text: string) => void)[] = []
  const build = (ending: AbortSignal) => {
    begun.push(ending)
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    ends.push(resolve)
    ending.addEventListener('abort', () => reject(ending.reason))
    return promise
  }
  return { begun, ends, build }
}

t.test('a round takes its turn at once from a preview, which is built again', async (t) => {
  const work = new RoundsFirst(new Turns({ maxRunning: 1 }))
  const { begun, ends, build } = builds()
  const preview = work.preview('ada', signal, build)
  await settled()
  t.equal(begun.length, 1)
  const end = await work.rounds.take('shop', signal)
  t.ok(begun[0]?.aborted, 'the preview has made way')
  await settled()
  t.equal(begun.length, 1, 'it waits while the round is at work')
  const endOther = work.rounds.take('other', signal)
  end()
  await settled()
  t.equal(begun.length, 1, 'the next round goes first, too')
  ;(await endOther)()
  await settled()
  t.equal(begun.length, 2)
  ends[1]?.('built')
  t.equal(await preview, 'built')
})

t.test('a round waits until a preview has given back its memory', async (t) => {
  const work = new RoundsFirst(new Turns({ maxRunning: 1 }))
  const { promise: freed, resolve: free } = Promise.withResolvers<void>()
  const left = new AbortController()
  const preview = work.preview('ada', left.signal, async (ending) => {
    await freed
    ending.throwIfAborted()
    return ''
  })
  await settled()
  let hasTurn = false
  const taking = work.rounds.take('shop', signal).then((end) => {
    hasTurn = true
    return end
  })
  await settled()
  t.notOk(hasTurn)
  free()
  const end = await taking
  left.abort(new Error('the caller has left'))
  await t.rejects(preview, /the caller has left/)
  end()
})

t.test('one preview is built at a time, and an error is its own', async (t) => {
  const work = new RoundsFirst(new Turns({ maxRunning: 2 }))
  const { begun, ends, build } = builds()
  const first = work.preview('ada', signal, build)
  const second = work.preview('bob', signal, async () => {
    throw new Error('bad chart')
  })
  await settled()
  t.equal(begun.length, 1)
  ends[0]?.('one')
  t.equal(await first, 'one')
  await t.rejects(second, /bad chart/)
})

t.test('a round that gives up leaves previews free', async (t) => {
  const work = new RoundsFirst(new Turns({ maxRunning: 1 }))
  const end = await work.rounds.take('shop', signal)
  const waits = new AbortController()
  const waiting = work.rounds.take('shop', waits.signal)
  waits.abort(new Error('superseded'))
  await t.rejects(waiting, /superseded/)
  end()
  end()
  t.equal(await work.preview('ada', signal, async () => 'built'), 'built')
})
