import type { Duplex } from 'node:stream'

/**
 * Reads a connection to its end though a write has failed. A server may close while its client still writes: a command has
 * ended, or a body is too long. What the server said before is still read. Node would destroy the socket at the first write
 * that fails, with all that waits in it.
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
