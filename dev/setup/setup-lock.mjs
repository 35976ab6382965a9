import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

const retryMs = 200
const patienceMs = 600_000

const isAlive = (pid) => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** Returns true if this process created the file; a file whose process has ended is removed. */
function take(file) {
  try {
    writeFileSync(file, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
  try {
    const pid = Number(readFileSync(file, 'utf8'))
    if (pid > 0 && !isAlive(pid)) rmSync(file, { force: true })
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  return false
}

/** Runs `work` while no other process of this machine runs it under the same file: two scripts may start at once. */
export async function withLock(file, work) {
  const end = Date.now() + patienceMs
  let told = false
  while (!take(file)) {
    if (Date.now() > end) throw new Error(`another set-up holds ${file} for over ${patienceMs / 60_000} minutes`)
    if (!told) process.stderr.write('kas: waiting for another set-up of this folder ...\n')
    told = true
    await delay(retryMs)
  }
  const release = () => rmSync(file, { force: true })
  const stop = (signal) => {
    release()
    process.kill(process.pid, signal)
  }
  process.once('SIGINT', stop).once('SIGTERM', stop)
  try {
    return await work()
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
    release()
  }
}
