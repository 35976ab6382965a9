import type { Duplex } from 'node:stream'

/**
 * A server may close while its client still writes: a command has ended, or a body is too long. What it said before has
 * arrived, or is on its way, and is read to its end; what is written from now on is lost, as what TCP had taken already is. Node's sockets are destroyed by the
 * first write that fails, and all that waits in them is lost: of a command in a Pod whose client speaks last, the exit
 * status.
 */
export function readOnAfterFailedWrite(socket: Duplex): void {
  const write = socket._write.bind(socket)
  const writev = socket._writev?.bind(socket)
  socket._write = (chunk, encoding, done) => write(chunk, encoding, unlessClosed(done))
  if (writev) socket._writev = (chunks, done) => writev(chunks, unlessClosed(done))
}

/** The codes with which a write fails at a connection that the other side has closed. */
const closed = new Set(['EPIPE', 'ECONNRESET'])

type Done = (error?: NodeJS.ErrnoException | null) => void

const unlessClosed =
  (done: Done): Done =>
  (error) =>
    error?.syscall === 'write' && closed.has(error.code ?? '') ? done() : done(error)
