/** A port behind which another one of this machine is as far away as it is told: each byte comes half a round trip later. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

const { port, roundTripMs } = JSON.parse(process.argv[2] as string) as { port: number; roundTripMs: number }
/** on its way in one direction of a connection; a sender waits beyond it, as before a router's buffer */
const maxBytesOnTheWay = 256 * 1024 * 1024

const server = createServer({ noDelay: true }, (near) => {
  const far = connect({ host: '127.0.0.1', port, noDelay: true })
  for (const [from, to] of [
    [near, far],
    [far, near],
  ] as const) {
    from.on('error', () => to.destroy())
    carry(from, to)
  }
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit())

function carry(from: Socket, to: Socket): void {
  const queue: { readonly at: number; readonly chunk: Buffer | undefined }[] = []
  let bytes = 0
  let timer: NodeJS.Timeout | undefined
  const deliver = () => {
    timer = undefined
    for (let next = queue[0]; next && next.at <= performance.now(); next = queue[0]) {
      queue.shift()
      if (!next.chunk) to.end()
      else {
        bytes -= next.chunk.length
        to.write(next.chunk)
      }
    }
    if (from.isPaused() && bytes < maxBytesOnTheWay / 2) from.resume()
    const [next] = queue
    if (next) timer = setTimeout(deliver, Math.max(0, next.at - performance.now()))
  }
  const send = (chunk: Buffer | undefined) => {
    queue.push({ at: performance.now() + roundTripMs / 2, chunk })
    bytes += chunk?.length ?? 0
    if (bytes > maxBytesOnTheWay) from.pause()
    if (!timer) timer = setTimeout(deliver, roundTripMs / 2)
  }
  from.on('data', send)
  from.on('end', () => send(undefined))
}
