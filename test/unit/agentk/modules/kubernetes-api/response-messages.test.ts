import t from 'tap'
import { ResponseMessages } from '../../../../../src/agentk/modules/kubernetes-api/response-messages.ts'

/** Writes pieces of `size` bytes until it is paused. @returns number of pieces */
function fill(size: number) {
  const heard: string[] = []
  const messages = new ResponseMessages({
    pause: () => heard.push('pause'),
    resume: () => heard.push('resume'),
    cancel: () => heard.push('cancel'),
  })
  let pieces = 0
  while (heard.length === 0 && pieces < 1_000_000) {
    messages.data(Buffer.alloc(size))
    pieces += 1
  }
  return { messages, heard, pieces }
}

t.test('bytes that wait hold their source up, and so do pieces', async (t) => {
  t.equal(fill(64 * 1024).pieces, 1)
  t.ok(fill(1024).pieces <= 64)
  t.ok(fill(1).pieces <= 512, 'a byte alone costs more than a byte')
})

t.test('read, it goes on', async (t) => {
  for (const size of [1, 1000, 16 * 1024, 100_000]) {
    const { messages, heard, pieces } = fill(size)
    let bytes = 0
    while (heard.at(-1) !== 'resume') bytes += ((await messages.next()).value as { length: number }).length
    t.ok(bytes <= pieces * (size + 32), 'before more than what waited was read')
    t.same(heard, ['pause', 'resume'])
    messages.data(Buffer.alloc(1))
    t.same(heard, ['pause', 'resume'], 'with room again')
  }
})
