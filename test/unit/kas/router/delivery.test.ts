import t from 'tap'
import type { Call, Forward, Reply, Safety } from '../../../../src/call/call.ts'
import { KnownMessages } from '../../../../src/call/known-messages.ts'
import { deliver, maxKeptBytes, maxRepeats, maxUnsentRepeats } from '../../../../src/kas/router/delivery.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { callOf, readReply } from '../../../support/agents-server.ts'

const lost = new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })
const unsent = new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })

/** A route that reads `count` messages of the call and is then lost. */
function lostAfter(count: number, seen: string[][], error = lost): Forward {
  return async (call) => {
    const read: string[] = []
    seen.push(read)
    if (count > 0) {
      for await (const message of call.messages) {
        read.push(Buffer.from(message).toString())
        if (read.length === count) break
      }
    }
    return ended(error)
  }
}

const echo: Forward = async (call) => {
  const messages: Uint8Array[] = []
  for await (const message of call.messages) messages.push(message)
  return {
    metadata: Promise.resolve({ served: ['yes'] }),
    messages: (async function* () {
      yield* messages
    })(),
    done: Promise.resolve({ trailers: {} }),
  }
}

function ended(error: KasError): Reply {
  return {
    metadata: Promise.resolve(undefined),
    messages: (async function* () {})(),
    done: Promise.resolve({ error, trailers: {} }),
  }
}

/** Sends each call to the next of `ways`. */
function inTurn(...ways: Forward[]): Forward & { calls: number } {
  const forward = Object.assign(
    (call: Call) => {
      const way = ways[Math.min(forward.calls++, ways.length - 1)] as Forward
      return way(call)
    },
    { calls: 0 },
  )
  return forward
}

t.test('a safe call that was lost before its reply is repeated whole', async (t) => {
  const seen: string[][] = []
  const forward = inTurn(lostAfter(1, seen), lostAfter(2, seen), echo)
  const reply = await deliver(forward)(callOf(['a', 'b', 'c'], { safety: 'safe' }))
  t.same((await readReply(reply)).messages, ['a', 'b', 'c'])
  t.same(seen, [['a'], ['a', 'b']])
})

t.test('not more than maxRepeats times', async (t) => {
  const forward = inTurn(lostAfter(0, []))
  const reply = await deliver(forward)(callOf(['a'], { safety: 'safe' }))
  t.equal((await reply.done).error, lost)
  t.equal(forward.calls, 1 + maxRepeats)
})

t.test('an unsafe call that may have arrived is not repeated', async (t) => {
  const forward = inTurn(lostAfter(0, []), echo)
  const reply = await deliver(forward)(callOf(['a']))
  t.equal((await reply.done).error, lost)
  t.equal(forward.calls, 1)
})

for (const safety of ['safe', 'unsafe'] satisfies Safety[]) {
  t.test(`of a ${safety} call that was not delivered all messages go another way`, async (t) => {
    const seen: string[][] = []
    const notDelivered = [0, 1, 2].map((count) => lostAfter(count, seen, unsent))
    const reply = await deliver(inTurn(...notDelivered, echo))(callOf(['a', 'b', 'c'], { safety }))
    t.same((await readReply(reply)).messages, ['a', 'b', 'c'])
    t.same(seen, [[], ['a'], ['a', 'b']])
    const known = new KnownMessages([Buffer.from('x')])
    const again = await deliver(inTurn(lostAfter(1, [], unsent), echo))(callOf([], { safety, messages: known }))
    t.same((await readReply(again)).messages, ['x'])
  })
}

t.test('an unsafe call is tried again as long as it was not delivered, and no further', async (t) => {
  const ways = inTurn(lostAfter(1, [], unsent), lostAfter(1, []), echo)
  const reply = await deliver(ways)(callOf(['a']))
  t.equal((await reply.done).error, lost)
  t.equal(ways.calls, 2)
})

t.test('what is never delivered ends', async (t) => {
  const forward = inTurn(lostAfter(0, [], unsent))
  const reply = await deliver(forward)(callOf(['a']))
  t.equal((await reply.done).error, unsent)
  t.equal(forward.calls, 1 + maxUnsentRepeats)
})

t.test('a reader that leaves a reply that has begun leaves the messages too', async (t) => {
  let hasLeft = false
  const messages = (async function* () {
    try {
      for (;;) yield Buffer.from('a')
    } finally {
      hasLeft = true
    }
  })()
  const reader = Promise.withResolvers<AsyncIterator<Uint8Array>>()
  const answers: Forward = async (call) => {
    const iterator = call.messages[Symbol.asyncIterator]()
    reader.resolve(iterator)
    await iterator.next()
    const done = Promise.resolve({ trailers: {} })
    return { metadata: Promise.resolve({}), messages: (async function* () {})(), done }
  }
  await deliver(answers)(callOf([], { messages }))
  const iterator = await reader.promise
  t.match(await iterator.next(), { done: false })
  await iterator.return?.()
  t.ok(hasLeft)
})

t.test('an error of the agent is not a loss', async (t) => {
  const refused = new KasError({ code: 'STATUS', grpc: 14, message: 'no cluster' })
  const forward = inTurn(async () => ended(refused), echo)
  const reply = await deliver(forward)(callOf(['a'], { safety: 'safe' }))
  t.equal((await reply.done).error, refused)
  t.equal(forward.calls, 1)
})

t.test('a call that has outgrown what is kept is not repeated', async (t) => {
  const forward = inTurn(lostAfter(2, []), echo)
  const large = Buffer.alloc(maxKeptBytes)
  const reply = await deliver(forward)(callOf([large, large], { safety: 'safe' }))
  t.equal((await reply.done).error, lost)
  t.equal(forward.calls, 1)
})

t.test('a caller that has left is not served again', async (t) => {
  const caller = new AbortController()
  const forward = inTurn(async () => {
    caller.abort()
    return ended(lost)
  }, echo)
  const reply = await deliver(forward)(callOf(['a'], { safety: 'safe', signal: caller.signal }))
  t.equal((await reply.done).error, lost)
})

t.test('a read that a lost way left behind brings its message to the next', async (t) => {
  const source = Promise.withResolvers<void>()
  const messages = (async function* () {
    yield Buffer.from('a')
    await source.promise
    yield Buffer.from('b')
  })()
  const stuck: Forward = async (call) => {
    const iterator = call.messages[Symbol.asyncIterator]()
    await iterator.next()
    void iterator.next() // nobody reads this result
    return ended(lost)
  }
  const running = deliver(inTurn(stuck, echo))(callOf([], { safety: 'safe', messages }))
  source.resolve()
  t.same((await readReply(await running)).messages, ['a', 'b'])
})

t.test('a reply that begins amid a repeat takes no message from it', async (t) => {
  const metadata = Promise.withResolvers<Record<string, string[]>>()
  const seen: string[] = []
  const early: Forward = async (call) => {
    const messages = call.messages[Symbol.asyncIterator]()
    const next = async () => {
      const { value, done } = await messages.next()
      if (!done) seen.push(Buffer.from(value).toString())
      return !done
    }
    await next()
    metadata.resolve({ served: ['yes'] })
    const answer = async function* () {
      while (await next());
      yield* seen.map((one) => Buffer.from(one))
    }
    return {
      metadata: metadata.promise,
      messages: answer(),
      done: Promise.resolve({ trailers: {} }),
    }
  }
  const forward = inTurn(lostAfter(3, []), early)
  const reply = await deliver(forward)(callOf(['a', 'b', 'c', 'd'], { safety: 'safe' }))
  t.same((await readReply(reply)).messages, ['a', 'b', 'c', 'd'])
})
