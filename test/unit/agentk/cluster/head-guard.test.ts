import t from 'tap'
import {
  HeadGuard,
  maxAnswerHeadBytes,
  maxAnswerLines,
  maxInformationalAnswers,
} from '../../../../src/agentk/cluster/head-guard.ts'

const status = 'HTTP/1.1 200 OK\r\n'
const hint = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
const lines = (count: number) => 'a: b\r\n'.repeat(count)
const anything = lines(2 * maxAnswerLines) + 'x'.repeat(2 * maxAnswerHeadBytes)

/** Returns the fault that a guard finds in `text`, which arrives in pieces of `size` bytes. */
function faultOf(text: string, size = text.length, guard = new HeadGuard()): string | undefined {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) {
    const fault = guard.accept(bytes.subarray(at, at + size))
    if (fault) return fault.message
  }
  return undefined
}

const long = `x: ${'v'.repeat(maxAnswerHeadBytes)}\r\n`
const cases: [what: string, text: string, fault: RegExp | undefined][] = [
  ['as many lines as are allowed, and any body', `${status}${lines(maxAnswerLines)}\r\n${anything}`, undefined],
  ['line ends without CR', `${status}${lines(maxAnswerLines)}\r\n${anything}`.replaceAll('\r', ''), undefined],
  ['empty lines before the head', `\r\n\r\n${status}\r\n${anything}`, undefined],
  ['as many 1xx as are allowed', `${hint.repeat(maxInformationalAnswers)}${status}\r\n${anything}`, undefined],
  ['a line more', `${status}${lines(maxAnswerLines + 1)}`, /its head has more than 500 lines/],
  ['a line more after a 1xx', `${hint}${status}${lines(maxAnswerLines + 1)}`, /more than 500 lines/],
  ['a long line', `${status}${long}`, /its head has more than 65536 bytes/],
  ['a status line that does not end', `HTTP/1.1 200 ${'a'.repeat(maxAnswerHeadBytes)}`, /65536 bytes/],
  ['a 1xx more', hint.repeat(maxInformationalAnswers + 1), /more than 20 informational answers/],
  ['a 1xx with many lines', hint.replace('\r\n', `\r\n${lines(maxAnswerLines)}`), /500 lines/],
]
for (const [what, text, fault] of cases) {
  t.test(what, async (t) => {
    for (const size of [text.length, 1, 2, 7, 1000]) {
      const said = faultOf(text, size)
      if (fault) t.match(said, fault, `in pieces of ${size}`)
      else t.equal(said, undefined, `in pieces of ${size}`)
    }
  })
}

t.test('a socket: each answer is counted anew, one that is too large ends it', async (t) => {
  const answer = `${status}${lines(maxAnswerLines)}\r\n`
  const queue = [answer, anything, answer, `${status}${lines(maxAnswerLines + 1)}`]
  const destroyed: unknown[] = []
  const socket = {
    read: () => Buffer.from(queue.shift() ?? ''),
    destroy: (error: unknown) => {
      destroyed.push(error)
    },
  }
  const guard = new HeadGuard()
  guard.watch(socket as never)
  t.equal(String(socket.read()), answer)
  t.equal(String(socket.read()), anything)
  guard.expect()
  t.equal(String(socket.read()), answer)
  guard.expect()
  t.equal(socket.read(), null, 'the parser is handed nothing of it')
  t.match(destroyed, [{ code: 'UNREACHABLE', message: /more than 500 lines/ }])
})
