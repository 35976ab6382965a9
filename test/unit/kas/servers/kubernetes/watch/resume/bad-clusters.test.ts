import t from 'tap'
import { type Answer, event, framed, lost, play, protobuf, protobufEvent } from './played-watch.ts'

/** Effects of clusters, aggregated APIs and dying holders on a watch that can resume. */

const size = 65_536
const inPieces = (bytes: Buffer) =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size))

const forms = {
  JSON: { type: 'application/json', write: (version: number) => Buffer.from(event('MODIFIED', version)) },
  protobuf: { type: protobuf, write: (version: number) => protobufEvent('MODIFIED', String(version)) },
}

for (const [name, { type, write }] of Object.entries(forms)) {
  t.test(`a holder that dies between two bytes of an event, in ${name}: each comes whole, once`, async (t) => {
    const events = [11, 12, 13].map(write)
    const all = Buffer.concat(events)
    for (let cut = 0; cut <= all.length; cut++) {
      let whole = 0
      for (let bytes = 0; bytes + (events[whole]?.length ?? Infinity) <= cut; whole++)
        bytes += (events[whole] as Buffer).length
      const { bytes, asked, error } = await play({ resourceVersion: '10' }, [
        { type, body: [all.subarray(0, cut)], error: lost },
        { type, body: [Buffer.concat(events.slice(whole))] },
      ])
      const isRight = bytes.equals(all) && asked[1]?.resourceVersion === String(10 + whole) && !error
      if (!isRight) return t.fail(`cut behind ${cut} bytes: ${bytes}, from ${asked[1]?.resourceVersion}`)
    }
    return t.pass(`at each of ${all.length} bytes`)
  })
}

t.test('frames that an aggregated API breaks pass as they are, and do not go on', async (t) => {
  const good = event('ADDED', 2)
  for (const broken of [
    '{\n"type":"ADDED"}\n',
    'x\n',
    '\n\n',
    '{"type":"ADDED","object":{}}\n',
    '{"type":"ADDED"\0\n',
  ]) {
    const { text, error } = await play({ resourceVersion: '1' }, [{ body: [good, broken], error: lost }])
    t.equal(text, good + broken)
    t.equal(error?.code, 'TUNNEL_LOST')
  }
  const nothing = framed(Buffer.alloc(0))
  const strange = framed(Buffer.from([0xff, 0xff, 0xff]))
  const endless = Buffer.concat([Buffer.from([0xff, 0xff, 0xff, 0xff]), Buffer.alloc(3000)])
  for (const broken of [nothing, strange, endless]) {
    const body = [protobufEvent('ADDED', '2'), broken]
    const { bytes, error } = await play({ resourceVersion: '1' }, [{ type: protobuf, body, error: lost }], {
      maxBytes: 2000,
    })
    t.ok(bytes.equals(Buffer.concat(body)))
    t.equal(error?.code, 'TUNNEL_LOST')
  }
})

t.test('objects of 1.5 MiB pass whole; what is longer than may be kept passes in pieces', async (t) => {
  const large = event('MODIFIED', 12, `,"annotations":{"a":"${'x'.repeat(1.5 * 2 ** 20)}"}`)
  const pieces = inPieces(Buffer.from(large))
  const whole = await play({ resourceVersion: '1' }, [{ body: pieces.slice(0, -1), error: lost }, { body: pieces }], {
    maxBytes: 2 << 20,
  })
  t.equal(whole.text, large)
  const inProtobuf = protobufEvent('MODIFIED', '12', 'x'.repeat(1.5 * 2 ** 20))
  const cut = inProtobuf.subarray(0, -1)
  const again = await play(
    { resourceVersion: '1' },
    [
      { type: protobuf, body: inPieces(cut), error: lost },
      { type: protobuf, body: [...inPieces(inProtobuf), protobufEvent('ADDED', '13')] },
    ],
    { maxBytes: 2 << 20 },
  )
  t.ok(again.bytes.equals(Buffer.concat([inProtobuf, protobufEvent('ADDED', '13')])))
  const longer = await play({ resourceVersion: '1' }, [
    { body: [...pieces, event('BOOKMARK', 13) + event('ADDED', 14)], error: lost },
    { body: [event('ADDED', 15)] },
  ])
  t.equal(longer.text, large + event('ADDED', 14) + event('ADDED', 15), 'behind it all is as before')
  t.equal(longer.asked[1]?.resourceVersion, '14')
  const within = await play({ resourceVersion: '1' }, [{ body: pieces.slice(0, -1), error: lost }])
  t.equal(within.text, large.slice(0, size * (pieces.length - 1)))
  t.equal(within.error?.code, 'TUNNEL_LOST', 'its client has half of it')
})

t.test('a resourceVersion of 1 MB: its event passes, and nothing is kept to go on from', async (t) => {
  const version = 'v'.repeat(1_000_000)
  const { text, error } = await play({ resourceVersion: '1' }, [{ body: [event('ADDED', version)], error: lost }], {
    maxBytes: 2 << 20,
  })
  t.equal(text, event('ADDED', version))
  t.equal(error?.code, 'TUNNEL_LOST')
  const inProtobuf = protobufEvent('ADDED', version)
  const other = await play({ resourceVersion: '1' }, [{ type: protobuf, body: [inProtobuf], error: lost }])
  t.ok(other.bytes.equals(inProtobuf))
  t.equal(other.error?.code, 'TUNNEL_LOST')
})

t.test('a resourceVersion with & is a value, and no part of a query', async (t) => {
  for (const written of ['5&watch=0 7', '5\\u0026watch=0 7']) {
    const { asked } = await play({ resourceVersion: '1' }, [{ body: [event('ADDED', written)], error: lost }, {}])
    t.same(asked[1], { watch: '1', resourceVersion: '5&watch=0 7', allowWatchBookmarks: 'true' })
  }
})

t.test(
  'a cluster restored from a backup: what it says of a version that it does not know is the last event',
  async (t) => {
    const tooOld = {
      kind: 'Status',
      status: 'Failure',
      message: 'too old resource version',
      reason: 'Expired',
      code: 410,
    }
    const tooLarge = {
      kind: 'Status',
      status: 'Failure',
      message: 'Timeout: Too large resource version: 900, current: 12',
      reason: 'Timeout',
      details: { causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }] },
      code: 504,
    }
    for (const status of [tooOld, tooLarge]) {
      const { text, error, asked } = await play({ resourceVersion: '899' }, [
        { body: [event('ADDED', 900)], error: lost },
        { status: status.code, body: [`${JSON.stringify(status)}\n`] },
      ])
      t.equal(text, `${event('ADDED', 900)}{"type":"ERROR","object":${JSON.stringify(status)}}\n`)
      t.equal(error, undefined)
      t.equal(asked[1]?.resourceVersion, '900')
    }
    const told = `${JSON.stringify({ type: 'ERROR', object: tooOld })}\n`
    const within = await play({ resourceVersion: '900' }, [{ error: lost }, { body: [told], error: lost }, {}])
    t.equal(within.text, told, 'API servers say it in the watch')
    t.equal(within.asked.length, 2, 'which is over then')
    const lower = await play({ resourceVersion: '900' }, [
      { error: lost },
      { body: [event('ADDED', 13)], error: lost },
      { body: [event('ADDED', 14)] },
    ])
    t.equal(lower.text, event('ADDED', 13) + event('ADDED', 14), 'one that takes it goes on with its own')
    t.equal(lower.asked[2]?.resourceVersion, '13')
  },
)

t.test('a cluster that sends one event and cuts, again and again, gains nothing by it', async (t) => {
  const answers = Array.from({ length: 30 }, (_, i): Answer => ({ body: [event('ADDED', i + 2)], error: lost }))
  const { asked, tookMs } = await play({ resourceVersion: '1' }, [...answers, {}])
  t.equal(asked.length, 31)
  t.ok(tookMs > 100_000, `${tookMs} ms for 30 of them`)
})

for (const type of ['MODIFIED', 'BOOKMARK']) {
  t.test(`the same ${type} each time is no progress: it ends`, async (t) => {
    const answers = Array<Answer>(500).fill({ body: [event(type, 1)], error: lost })
    const { asked, tookMs, error } = await play({ resourceVersion: '1' }, answers)
    t.equal(error?.code, 'TUNNEL_LOST')
    t.ok(tookMs > 115_000 && tookMs < 135_000, `${tookMs} ms`)
    t.ok(asked.length < 45, `${asked.length} tries`)
  })
}
