import type { Duplex } from 'node:stream'

/**
 * Reads a connection to its end although a write has failed. A server may close while its client still writes, because
 * a command has ended, or a body is too long. Data that the server sent before is still read. Node would destroy the
 * socket at the first failed write, with all its unread data.
 */
export function readOnAfterFailedWrite(socket: Duplex): void {
  const write = socket._write.bind(socket)
  const writev = socket._writev?.bind(socket)
  socket._write = (chunk, encoding, done) => write(chunk, encoding, unlessClosed(done))
  if (writev) socket._writev = (chunks, done) => writev(chunks, unlessClosed(done))
}

/** Codes with which a write fails if the other side has closed the connection. */
const closed = new Set(['EPIPE', 'ECONNRESET'])

type Done = (error?: NodeJS.ErrnoException | null) => void

const unlessClosed =
  (done: Done): Done =>
  (error) =>
    error?.syscall === 'write' && closed.has(error.code ?? '') ? done() : done(error)
