import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import type { Processes, TestProcess } from './processes.ts'

/** No window, no first-run pages and no background requests; certificates of the test's own authority are accepted. */
const flags = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-dev-shm-usage', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-extensions'],
  '--ignore-certificate-errors',
]

/**
 * Starts Debian's Chromium with the page open, until the test ends or it is killed. Names under `localhost` resolve to
 * this host.
 */
export async function openPage(processes: Processes, url: string): Promise<TestProcess> {
  const profile = await mkdtemp(join(processes.folder, 'chromium-'))
  return await processes.spawn({
    command: 'chromium',
    args: [...flags, `--user-data-dir=${profile}`, '--remote-debugging-port=0', url],
  })
}
