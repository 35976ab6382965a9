import t from 'tap'
import { Code, errorCodes, KasError } from '../../../src/lib/errors.ts'

t.test('each code has a text, a gRPC code and an HTTP status', async (t) => {
  for (const code of errorCodes) {
    const error = new KasError({ code, detail: 'd', problems: ['p'], file: 'f', message: 'm', grpc: 5 } as never)
    t.ok(error.message, `${code} has a text`)
    t.ok(error.grpcCode > 0 && error.grpcCode <= 16, `${code} has a gRPC code`)
    t.ok(error.httpStatus >= 400 && error.httpStatus < 600, `${code} has an HTTP status`)
  }
})

t.test('an agent that is connected, and of which no pod leads: what is wrong, and where to read more', async (t) => {
  t.match(
    new KasError({ code: 'VIEWS_NOT_LED', waitedMs: 20_000 }).message,
    /none reaches its API server, or .* is silent for 20 s\. Its log says why: kubectl -n /,
  )
})

t.test('a status of the other side keeps its own code and text', async (t) => {
  const error = new KasError({ code: 'STATUS', grpc: Code.DATA_LOSS, message: 'gone' })
  t.match({ code: error.grpcCode, text: error.message }, { code: Code.DATA_LOSS, text: 'gone' })
})

t.test('anything becomes a KasError at a border, and keeps its cause there', async (t) => {
  const known = new KasError({ code: 'FORBIDDEN' })
  t.equal(KasError.from(known), known)
  t.equal(KasError.from(AbortSignal.abort().reason).code, 'CANCELLED')
  t.equal(KasError.from(new DOMException('late', 'TimeoutError')).code, 'DEADLINE_EXCEEDED')
  const cause = new Error('a secret')
  const error = KasError.from(cause)
  t.match({ code: error.code, text: error.message }, { code: 'INTERNAL', text: 'Internal error' })
  t.equal(error.cause, cause)
})

t.test('what strangers can have by the thousand does not say where it was thrown, all else does', async (t) => {
  const { stackTraceLimit } = Error
  t.notMatch(new KasError({ code: 'UNAUTHENTICATED' }).stack, /\n/)
  t.match(new KasError({ code: 'INTERNAL' }).stack, /errors\.test\.ts/)
  t.equal(Error.stackTraceLimit, stackTraceLimit)
})
