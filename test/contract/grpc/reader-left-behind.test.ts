import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { abortable } from '../../../src/lib/signals.ts'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import { patience } from '../../support/slowness.ts'
import { serveOurs } from './ours.ts'

/** A handler ends its call while a reader still waits for a message, as in a tunnel whose caller left. */

const path = '/test.Contract/Left'

for (const [name, end] of [
  ['the client half-closes', 'half-close'],
  ['the connection is lost', 'destroy'],
  ['nothing more comes', 'none'],
] as const) {
  t.test(`${name}: the wait ends`, async (t) => {
    const read = Promise.withResolvers<unknown>()
    const handled = Promise.withResolvers<void>()
    const server = await serveOurs({
      [path]: async ({ messages, send }) => {
        await send(Buffer.from('x'))
        messages[Symbol.asyncIterator]().next().then(read.resolve, read.resolve)
        setTimeout(handled.resolve)
        return {}
      },
    })
    t.teardown(() => server.close())
    const socket = connect({ port: server.port, host: '127.0.0.1' })
    await once(socket, 'connect')
    const session = ClientSession.over(socket, { authority: 'x', scheme: 'http' })
    t.teardown(() => session.destroy())
    const stream = session.open({ method: path })
    await handled.promise
    if (end === 'half-close') stream.end()
    if (end === 'destroy') for (const one of [session, ...server.sessions]) one.destroy()
    await t.resolves(abortable(read.promise, AbortSignal.timeout(patience(3000))))
  })
}
