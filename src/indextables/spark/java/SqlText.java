package indextables;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * SQL cut into the pieces that mean something: words, quoted names, strings and single characters. Comments mean nothing.
 * The rules are those of Spark's lexer, and the same as in indextables.model.predicate.spans, piece for piece.
 */
class SqlText {
  static final int NEVER = -1;

  /** One piece: `kind` is w(ord), q(uoted name), t(ext in quotes) or s(ign). */
  static class Piece {
    final char kind;
    final int start;
    final int end;
    final String text;

    Piece(char kind, int start, int end, String text) {
      this.kind = kind;
      this.start = start;
      this.end = end;
      this.text = text;
    }

    /** A word of plain letters in upper case; empty for everything else. */
    String upper() {
      if (kind != 'w') return "";
      for (int i = 0; i < text.length(); i++) if (text.charAt(i) > 127) return "";
      return text.toUpperCase(Locale.ROOT);
    }

    boolean isSign(String signs) {
      return kind == 's' && signs.indexOf(text) >= 0;
    }
  }

  private final String sql;
  /** False once a string, a comment or a quoted name was met that does not end. */
  boolean closed = true;

  SqlText(String sql) {
    this.sql = sql;
  }

  /** The first pieces, at most so many, as far as they can be told apart. */
  List pieces(int most) {
    List found = new ArrayList();
    int at = 0;
    while (at < sql.length() && found.size() < most) {
      char kind = kindAt(at);
      int end = endAt(at, kind);
      closed = end != NEVER;
      if (!closed) break;
      if (kind == '$') {
        boolean sign = end == at;
        found.add(new Piece(sign ? 's' : 't', at, sign ? at + 1 : end, sign ? "$" : sql.substring(at, end)));
        at = sign ? at + 1 : end;
        continue;
      }
      if (kind != ' ') found.add(new Piece(kind == 'r' ? 't' : kind, at, end, sql.substring(at, end)));
      at = end;
    }
    return found;
  }

  private char kindAt(int at) {
    char letter = sql.charAt(at);
    if (isSpace(letter) || sql.startsWith("--", at) || sql.startsWith("/*", at)) return ' ';
    if (letter == '\'' || letter == '"') return 't';
    if (letter == '`') return 'q';
    if (letter == '$') return '$';
    int end = wordEnd(at);
    if (end == at) return 's';
    boolean quoteFollows = end < sql.length() && (sql.charAt(end) == '\'' || sql.charAt(end) == '"');
    return end == at + 1 && (letter == 'r' || letter == 'R') && quoteFollows ? 'r' : 'w';
  }

  private int endAt(int at, char kind) {
    if (kind == 't') return quotedEnd(at, false);
    if (kind == 'r') return quotedEnd(at + 1, true);
    if (kind == 'q') return nameEnd(at);
    if (kind == '$') return dollarEnd(at);
    if (kind == 'w') return wordEnd(at);
    if (kind == 's') return at + Character.charCount(sql.codePointAt(at));
    if (sql.startsWith("--", at)) return lineCommentEnd(at);
    return sql.startsWith("/*", at) ? blockCommentEnd(at) : at + 1;
  }

  private int lineCommentEnd(int start) {
    int at = start;
    while (at < sql.length() && sql.charAt(at) != '\r' && sql.charAt(at) != '\n') at += sql.startsWith("\\\n", at) ? 2 : 1;
    return Math.min(at, sql.length());
  }

  private int blockCommentEnd(int start) {
    int depth = 0;
    int at = start;
    while (at < sql.length()) {
      if (sql.startsWith("/*", at)) {
        depth++;
        at += 2;
      } else if (sql.startsWith("*/", at)) {
        depth--;
        at += 2;
        if (depth == 0) return at;
      } else {
        at++;
      }
    }
    return NEVER;
  }

  private int quotedEnd(int start, boolean raw) {
    char quote = sql.charAt(start);
    int at = start + 1;
    while (at < sql.length()) {
      if (sql.charAt(at) == '\\' && !raw) at += 2;
      else if (sql.charAt(at) != quote) at++;
      else if (raw || at + 1 >= sql.length() || sql.charAt(at + 1) != quote) return at + 1;
      else at += 2;
    }
    return NEVER;
  }

  private int nameEnd(int start) {
    int at = start + 1;
    while (at < sql.length()) {
      if (sql.charAt(at) != '`') at++;
      else if (at + 1 < sql.length() && sql.charAt(at + 1) == '`') at += 2;
      else return at + 1;
    }
    return NEVER;
  }

  private int wordEnd(int start) {
    int at = start;
    while (at < sql.length()) {
      int letter = sql.codePointAt(at);
      if (letter != '_' && !isLetterOrNumber(letter)) break;
      at += Character.charCount(letter);
    }
    return at;
  }

  /** After a string between two equal tags, $$ ... $$ or $body$ ... $body$; the start itself where there is no tag. */
  private int dollarEnd(int start) {
    int at = start + 1;
    while (at < sql.length() && sql.charAt(at) < 128 && Character.isLetter(sql.charAt(at))) at++;
    if (!sql.startsWith("$", at)) return start;
    String tag = sql.substring(start, at + 1);
    int end = sql.indexOf(tag, at + 1);
    return end < 0 ? NEVER : end + tag.length();
  }

  private static boolean isSpace(char letter) {
    return Character.isWhitespace(letter) || Character.isSpaceChar(letter) || letter == '\u0085';
  }

  private static boolean isLetterOrNumber(int letter) {
    int type = Character.getType(letter);
    return Character.isLetterOrDigit(letter) || type == Character.LETTER_NUMBER || type == Character.OTHER_NUMBER;
  }
}
