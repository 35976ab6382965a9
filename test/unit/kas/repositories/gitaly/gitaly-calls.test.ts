import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { GitalyCalls, maxMessages } from '../../../../../src/kas/repositories/gitaly/gitaly-calls.ts'
import type { GitalyServer } from '../../../../../src/kas/repositories/gitaly/gitaly-server.ts'
import { systemClock } from '../../../../../src/lib/clock.ts'
import {
  CommitService,
  GetTreeEntriesRequestSchema,
  GetTreeEntriesResponseSchema,
} from '../../../../../src/proto/gen/gitaly_pb.ts'

/** A faulty Gitaly. Messages without end, or with too many entries, end the call before they cost much. */

const repository = {
  storageName: 'default',
  relativePath: 'a.git',
  glRepository: '',
  glProjectPath: 'a/b',
  gitObjectDirectory: '',
  gitAlternateObjectDirectories: [],
}

/** Reads these messages. @returns the error that ends the call, and how many messages and entries were read */
async function ended(messages: Iterable<Uint8Array>) {
  let sent = 0
  const call = async function* () {
    for (const message of messages) {
      sent++
      yield message
    }
  }
  const server = { call, hurry: () => undefined } as unknown as GitalyServer
  const coordinates = { address: '', token: '', features: {}, repository, defaultBranch: '' }
  const calls = new GitalyCalls(coordinates, { server: () => server, features: () => ({}), clock: systemClock })
  let entries = 0
  const { getTreeEntries } = CommitService.method
  try {
    const request = create(GetTreeEntriesRequestSchema)
    for await (const message of calls.call(getTreeEntries, request, undefined)) entries += message.entries.length
    return { sent, entries }
  } catch (error) {
    return { sent, entries, error }
  }
}

function* endless(message: Uint8Array) {
  for (;;) yield message
}

t.test('messages without end, and others have their turn meanwhile', async (t) => {
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  const { sent, error } = await ended(endless(new Uint8Array()))
  isOver = true
  t.match(error, {
    code: 'REPOSITORY_FAILED',
    message: `Repository: Gitaly's GetTreeEntries: more than ${maxMessages} messages`,
  })
  t.equal(sent, maxMessages + 1)
  t.ok(turns >= maxMessages / 200, `${turns} turns of the event loop`)
})

t.test('entries of two bytes each are counted before they are built', async (t) => {
  const empty = create(GetTreeEntriesResponseSchema, { entries: Array(1000).fill({}) })
  t.strictSame(await ended([toBinary(GetTreeEntriesResponseSchema, empty)]), { sent: 1, entries: 1000 })
  const full = Buffer.alloc(4 << 20)
  for (let at = 0; at < full.length; at += 2) full[at] = 0x0a
  const { error, entries } = await ended([full])
  t.match(error, { code: 'REPOSITORY_FAILED', message: /GetTreeEntries: a message of more than 1000 fields$/ })
  t.equal(entries, 0)
})
