import { readAuthorities } from '../trusted-authorities.ts'
import { type Found, problemFindings } from './findings.ts'

/** Checks that the certificates of a file of authorities can be read. @param key - the key or flag that names the file */
export async function checkAuthority(check: string, key: string, file: string): Promise<Found[]> {
  try {
    await readAuthorities(file, key)
    const text = `${file} holds certificates that can be read; their dates are not checked`
    return [{ check, state: 'ok', subject: key, text }]
  } catch (error) {
    return problemFindings(check, error, 'write the certificate of the authority there, in PEM')
  }
}
